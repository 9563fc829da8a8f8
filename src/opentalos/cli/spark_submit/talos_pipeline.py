"""The program for spark-submit: ``spark-submit ... talos_pipeline.py run archive ...``.

``talos pipeline submit-file`` prints its path. Arguments are those of ``talos pipeline``.
"""

import sys

from opentalos.cli.main import main

if __name__ == "__main__":
    sys.argv.insert(1, "pipeline")
    main()
