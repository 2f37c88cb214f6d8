"""Group communication: views, primary views and a totally ordered broadcast. Knows nothing of HTTP or QoS."""
