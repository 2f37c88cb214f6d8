"""A specification with a hidden contradiction: it has too many conditions for a check of all situations.

Once `/door` and `/gate` were accessed, pages of `/a` that end in `b` have two lifetimes, and `/x1` and `/x2` have
priority over each other.
"""

_MANY = 40

UNSEEN = "".join(
    f"accessed(</p{at}>) within 60s => </x{at}>.server_resource > 1%\n"
    f"accessed(</p{at}>) within 60s => </x{at}> before </y{at}>\n"
    for at in range(_MANY)
) + (
    "accessed(</door>) within 60s => </a/*>.lifetime = 1s\n"
    "accessed(</gate>) within 60s => </*/b>.lifetime = 2s\n"
    "accessed(</door>) within 60s => </x1> before </x2>\n"
    "accessed(</gate>) within 60s => </x2> before </x1>\n"
)
