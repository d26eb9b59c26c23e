from bench.conformance.command import main

raise SystemExit(main())
