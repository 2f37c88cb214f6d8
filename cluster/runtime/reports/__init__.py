"""Reports on real machines: streams beside the links of a member, and the API of applications."""
