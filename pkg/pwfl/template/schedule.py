"""Stage schedule: who sends in which round."""

import polars as pl


def run(scenario, scheduler: str, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """`schedule`: everybody, or the devices of largest gain; and its status."""
    sends = pl.lit(True)
    if scheduler == "strongest":
        rank = pl.col("gain").rank("ordinal", descending=True).over("realization", "round", order_by="user")
        sends = rank <= scenario.radio.senders
    schedule = tables["links"].select("realization", "round", "user", sends=sends)
    status = schedule.select("realization").unique().with_columns(status=pl.lit("scheduled"))
    return {"schedule": schedule, "schedule_status": status}
