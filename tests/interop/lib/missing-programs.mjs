// Prints which tests of `make test` were skipped because a program is missing.

import { whyNoCollector } from './collector.mjs'
import { whyNoKubo } from './kubo.mjs'
import { whyNoNats } from './nats.mjs'
import { whyNoPebble } from './pebble.mjs'

for (const reason of [whyNoKubo, whyNoPebble, whyNoNats, whyNoCollector]) if (reason) console.log(reason)
