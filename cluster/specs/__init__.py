"""Runtime checkers of the papers' specifications (over traces) and invariants (over the joint state).

| name      | file                     | what it checks                                   | source                 |
|-----------|--------------------------|--------------------------------------------------|------------------------|
| WORLD     | `world`                  | a crashed process takes no steps                 |                        |
| CO_RFIFO  | `co_rfifo`               | reliable FIFO links                              | thesis, fig. 4.4       |
| MBRSHP    | `mbrshp`                 | start changes and views                          | thesis, fig. 4.2       |
| WV_RFIFO  | `wv_rfifo`               | FIFO delivery within views                       | thesis, fig. 5.1       |
| VS_RFIFO  | `vs_rfifo`               | virtual synchrony                                | thesis, fig. 5.2       |
| TRANS_SET | `trans_set`              | transitional sets                                | thesis, fig. 5.3       |
| SELF      | `self_delivery`          | self delivery, and the client that blocks        | thesis, figs. 5.4, 7.1 |
| VS        | `vs` (`ordered_views`)   | one order in a view, and safe indications        | PODC 1998, fig. 1      |
| DVS       | `dvs` (`ordered_views`)  | primary views                                    | PODC 1998, fig. 2      |
| TO        | `total_order`            | one order over all primary views                 | PODC 1998, section 6   |
| REPLICA   | `replica`                | guarantees to the application                    |                        |
| DISK      | `disk`                   | a state machine sees only entries on its disk    |                        |
| GCS       | `invariants.gcs`         | the end-points' invariants of 7.1 to 7.4 and 8   | thesis, ch. 7 and 8    |
| DVS-IMPL  | `invariants.dvs`         | 3.1, 4.1, 4.2, 5.1 to 5.6                        | PODC 1998              |
| TO-IMPL   | `invariants.total_order` | 6.1 to 6.3; one confirmed sequence, never lost   | PODC 1998              |
| LIVENESS  | `liveness`               | the final state of a run                         | thesis, section 5.2    |
| TIMING    | `timing`                 | how long a change of view takes                  | thesis, ch. 9          |
| FIFO_SRB  | `services.reports`       | semantically reliable broadcast, beside the stack | SRB, section 2.1      |

`checkers.Checkers` contains all of them; a simulation feeds it. `spec` is their base class. Invariants read the
state of the running processes (`invariants.joint`).
"""
