"""Heads and edges: brokers that route publications by content over an acyclic overlay (PADRES, PEER).

router = Router("b1", epoch=1, rng=Random(1))
router.handle(Connect("b2"), now)                 [Send("b2", Hello(…))]
router.handle(Attach("ann", "subscriber"), now)   [Attached("ann")] or [Redirect("ann", "b3")]
"""
