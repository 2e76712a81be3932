"""Makes a mistake on purpose.  usage: plant.py EXTENSION leak|overread"""

import importlib.util
import pickle
import sys

spec = importlib.util.spec_from_file_location("planted", sys.argv[1])
planted = importlib.util.module_from_spec(spec)
spec.loader.exec_module(planted)
pickle.loads(pickle.dumps({"a": [1, 2.5, "three"]}))
getattr(planted, sys.argv[2])()
