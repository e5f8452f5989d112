// One BBR flow over a dumbbell in ns-3 3.37: 100 Mbit/s, 40 ms, 1 BDP, 60 s unless the arguments say otherwise.
// Built and timed by ns3.sh; prints `data_packets goodput_bps` of the run.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <iostream>

using namespace ns3;

namespace
{

const uint32_t SEGMENT_BYTES = 1448;
const uint16_t PORT = 5201;

uint64_t dataPackets = 0;

void
CountSegment(Ptr<const Packet> packet, const TcpHeader&, Ptr<const TcpSocketBase>)
{
    dataPackets += packet->GetSize() > 0;
}

// The socket exists only once the application has started.
void
Watch(Ptr<BulkSendApplication> source)
{
    source->GetSocket()->TraceConnectWithoutContext("Tx", MakeCallback(&CountSegment));
}

} // namespace

int
main(int argc, char* argv[])
{
    double seconds = 60;
    uint64_t rateMbit = 100;
    uint64_t rttMs = 40;
    CommandLine cmd(__FILE__);
    cmd.AddValue("seconds", "simulated seconds", seconds);
    cmd.AddValue("rate", "bottleneck, Mbit/s", rateMbit);
    cmd.AddValue("rtt", "base round-trip time, ms", rttMs);
    cmd.Parse(argc, argv);

    const uint64_t bdpBytes = rateMbit * 1000000 / 8 * rttMs / 1000;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpBbr"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT_BYTES));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(8 * bdpBytes));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(8 * bdpBytes));

    // Senders and receivers hang on fast links; the bottleneck is between the routers.
    NodeContainer nodes;
    nodes.Create(4);
    PointToPointHelper edge;
    edge.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    edge.SetChannelAttribute("Delay", StringValue("0ms"));
    PointToPointHelper bottleneck;
    bottleneck.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rateMbit * 1000000)));
    bottleneck.SetChannelAttribute("Delay", TimeValue(MicroSeconds(rttMs * 500)));
    bottleneck.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::BYTES, bdpBytes)));
    NetDeviceContainer links[] = {edge.Install(nodes.Get(0), nodes.Get(1)),
                                  bottleneck.Install(nodes.Get(1), nodes.Get(2)),
                                  edge.Install(nodes.Get(2), nodes.Get(3))};

    // The devices' own queues are the only ones: no traffic control is installed on the nodes.
    InternetStackHelper internet;
    internet.Install(nodes);
    Ipv4AddressHelper address;
    Ipv4InterfaceContainer interfaces[3];
    for (int i = 0; i < 3; i++)
    {
        const std::string net = "10.0." + std::to_string(i) + ".0";
        address.SetBase(net.c_str(), "255.255.255.0");
        interfaces[i] = address.Assign(links[i]);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(interfaces[2].GetAddress(1), PORT));
    source.SetAttribute("SendSize", UintegerValue(SEGMENT_BYTES));
    ApplicationContainer sending = source.Install(nodes.Get(0));
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
    ApplicationContainer receiving = sink.Install(nodes.Get(3));
    receiving.Start(Seconds(0));
    sending.Start(Seconds(0));
    Simulator::Schedule(NanoSeconds(1), &Watch, DynamicCast<BulkSendApplication>(sending.Get(0)));

    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    const uint64_t bytes = DynamicCast<PacketSink>(receiving.Get(0))->GetTotalRx();
    std::cout << dataPackets << " " << static_cast<uint64_t>(bytes * 8 / seconds) << std::endl;
    Simulator::Destroy();
    return 0;
}
