"""Parts of `deepgemm demo`: a small language model whose every Linear runs in FP8.

`model` reads the weights, `encoder` is the model in plain NumPy over any Linear, `linear` has the
three Linears (FP32, emulated FP8 in FP64, deepgemm), `emulation` the quantisers written anew in
NumPy, `report` the checks and the printed tables.
"""
