"""WebQoS: the language in which a site writes down which pages get how much of its capacity.

Paper: the QoS web server, section 2 (an informal sketch; what it prints parses here as it stands there).
``syntax`` reads text, ``values`` and ``patterns`` say what its words mean, ``model`` is what a specification becomes,
``match`` finds the class of a request, ``check`` finds mistakes, ``allocation`` divides the capacity. All of it is
pure; the commands are in ``qosweb.tools``.
"""
