// Prints which tests of `make test` were skipped because a program is missing.

import { whyNoKubo } from './kubo.mjs'
import { whyNoPebble } from './pebble.mjs'

for (const reason of [whyNoKubo, whyNoPebble]) if (reason) console.log(reason)
