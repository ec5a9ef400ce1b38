"""``/datasets``: the datasets of the data cluster."""

from __future__ import annotations

from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, operation
from tocsin.cluster.http.schemas import DatasetInfo, Datasets
from tocsin.errors import NotFound
from tocsin.http.responses import answer


@operation("GET", "/datasets", "All datasets", Answer("In the order of their creation", Datasets))
async def list_datasets(exchange: Exchange) -> Response:
    return answer({"datasets": await exchange.threads.quick.run(exchange.cluster.datasets)})


@operation("GET", "/datasets/{dataset}", "One dataset", Answer("The dataset", DatasetInfo), errors=(NotFound,))
async def show_dataset(exchange: Exchange) -> Response:
    return answer(await exchange.threads.quick.run(exchange.cluster.dataset, exchange.path["dataset"]))


OPERATIONS = (list_datasets, show_dataset)
