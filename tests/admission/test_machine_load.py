"""Machine load: samples are within their bounds."""

from qosweb.admission.machine_load import PPM, MachineLoadSampler


def test_the_load_is_within_its_bounds() -> None:
    sampler = MachineLoadSampler()
    for _ in range(3):
        load = sampler.sample()
        assert 0 <= load.cpu_ppm <= PPM
        assert load.sent_bps >= 0
        assert load.received_bps >= 0
        assert load is sampler.latest
