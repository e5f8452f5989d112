//! Delivery-rate sampling (draft-ietf-ccwg-bbr §4.1): turns sent, acked and lost packets into an `Ack`.
