"""
ONNX in a server
================

The same model as an ONNX graph of standard operators, answered by onnxruntime behind a small HTTP
server that knows neither kernelite nor scikit-learn. Needs the extra ``onnx``, and onnxruntime.
"""

import json
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from urllib.request import urlopen

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelite as kl

absent = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
print(f"not installed, so nothing is served: {absent}" if absent else "all there")

# %%
# Three graphs: everything, the form that says what is proven, and the form alone.

X, y = load_breast_cancer(return_X_y=True)
machine = make_pipeline(StandardScaler(), SVC(gamma=0.001, C=10)).fit(X, y)
fast = kl.compile(machine, X)
folder = tempfile.TemporaryDirectory()
graphs = {
    "all": {},
    "with decided": {"part": "approximation", "decided": True},
    "form alone": {"part": "approximation"},
}
sizes = {}
if not absent:
    for name, options in graphs.items():
        path = Path(folder.name, f"{name}.onnx")
        fast.export(path, **options)
        sizes[name] = path.stat().st_size
    print(sizes)

# %%
# The server.


def serve(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            try:
                rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                rows = np.array(rows, dtype=float)
                if not np.isfinite(rows).all():
                    raise ValueError("rows must be finite numbers")
                code, answer = 200, session.run(["label"], {"X": rows})[0].tolist()
            except Exception as error:  # onnxruntime's are of several kinds
                code, answer = 400, {"error": str(error)}
            self.send_response(code)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_):
            pass

    return HTTPServer(("127.0.0.1", 0), Handler)


if not absent:
    server = serve(Path(folder.name, "all.onnx"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    start = perf_counter()
    with urlopen(
        f"http://127.0.0.1:{server.server_port}", json.dumps(X.tolist()).encode()
    ) as answer:
        labels = json.loads(answer.read())
    print(f"{len(labels)} labels over HTTP in {1000 * (perf_counter() - start):.0f} ms")
    print("same labels:", (np.array(labels) == machine.predict(X)).all())
    server.shutdown()
    server.server_close()
folder.cleanup()

# %%
if sizes:
    figure, axes = plt.subplots(figsize=(7.2, 2.4))
    bars = axes.barh(list(sizes), [size / 1000 for size in sizes.values()], color="#1f5fa8")
    axes.bar_label(bars, fmt="%.3g", padding=4)
    axes.set_xlabel("kilobytes of the graph")
    plt.show()
