"""Fixtures: one Spark session for all tests of this folder, and one long log with its analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qosweb.analytics.analysis import analyse
from qosweb.analytics.command import settings
from qosweb.analytics.read import sources
from qosweb.analytics.read.rows import AnalysisRequest
from qosweb.analytics.spark.session import spark_session
from tests.analytics.logs.story import Story, write_story

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from qosweb.analytics.findings import Findings


INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}  # short queries


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    with spark_session("tests", "local[2]", conf=settings("local[2]", 0) | INTERPRETED) as session:
        yield session


@pytest.fixture(scope="package")
def story() -> Story:
    return write_story()


@pytest.fixture(scope="package")
def findings(spark: SparkSession, story: Story, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """Findings of the long log, one file for each node, as nodes write them."""
    folder = tmp_path_factory.mktemp("logs")
    for node in story.log.nodes:
        story.log.write(folder / f"{node}.log", lambda line, node=node: line["node"] == node)  # type: ignore[misc]
    return analyse(spark, AnalysisRequest(sources.find([str(folder)])))
