One file a controller, NAME.toml, written by `headway enable` and taken away by `headway disable`. Two units read them at
boot: headway.service before the network, headway-late.service after it. After a change by hand:

    headway apply --check     is what I wrote right?
    headway apply             put it in force
