//! What libraries have: pairtree identifiers and folders, METS, volume ZIPs; and making more of the like for load tests
