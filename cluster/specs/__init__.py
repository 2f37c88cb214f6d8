"""The papers' specifications as checkers of a trace, and their invariants as checkers of the joint state.

| name      | file                     | what it judges                                   | where it is from       |
|-----------|--------------------------|--------------------------------------------------|------------------------|
| WORLD     | `world`                  | who can take a step at all                       |                        |
| CO_RFIFO  | `co_rfifo`               | reliable FIFO links                              | thesis, fig. 4.4       |
| MBRSHP    | `mbrshp`                 | start changes and views                          | thesis, fig. 4.2       |
| WV_RFIFO  | `wv_rfifo`               | FIFO delivery within views                       | thesis, fig. 5.1       |
| VS_RFIFO  | `vs_rfifo`               | virtual synchrony                                | thesis, fig. 5.2       |
| TRANS_SET | `trans_set`              | transitional sets                                | thesis, fig. 5.3       |
| SELF      | `self_delivery`          | self delivery, and the client that blocks        | thesis, figs. 5.4, 7.1 |
| VS        | `vs` (`ordered_views`)   | one order in a view, and safe                    | PODC 1998, fig. 1      |
| DVS       | `dvs` (`ordered_views`)  | primary views                                    | PODC 1998, fig. 2      |
| TO        | `total_order`            | one order over all                               | PODC 1998, section 6   |
| REPLICA   | `replica`                | what the application is promised                 |                        |
| GCS       | `invariants.gcs`         | the end-points' invariants of 7.1 to 7.4 and 8   | thesis, ch. 7 and 8    |
| DVS-IMPL  | `invariants.dvs`         | 3.1, 4.1, 4.2, 5.1 to 5.6                        | PODC 1998              |
| TO-IMPL   | `invariants.total_order` | 6.1 to 6.3; what is confirmed is one, and stays  | PODC 1998              |
| LIVENESS  | `liveness`               | the end of a run                                 | thesis, section 5.2    |
| TIMING    | `timing`                 | how long a change of view takes                  | thesis, ch. 9          |

`checkers.Checkers` has all of them and is what a simulation feeds; `spec` is the form that they share; `joint` names
what the invariants read of a process.
"""
