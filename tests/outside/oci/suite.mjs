// The conformance tests of the OCI distribution specification.

import { readFileSync } from 'node:fs'
import path from 'node:path'

import { Olareg } from '../../interop/lib/olareg.mjs'
import { buildOlareg, whyNoOlareg } from '../../interop/lib/mirror-tools.mjs'
import { startMirror } from '../../interop/lib/server.mjs'
import { junitCases } from '../lib/junit.mjs'
import { startSplitter } from '../lib/splitter.mjs'
import { Skip, goProgram, run } from '../lib/tools.mjs'

const MODULE = 'github.com/opencontainers/distribution-spec/conformance'
const VERSION = 'v0.0.0-20260831232431-97274622c111'
const RUN_MS = 3 * 60_000

export const suite = {
  title: 'OCI distribution conformance',
  about:
    'The conformance tests of the OCI distribution specification. They push images and pull them again. A splitter sends ' +
    'each push to a registry and each pull to the mirror, so the mirror answers every request that reads. Deletions are off: a mirror keeps what it has pulled.',
  parts: [{ judged: 'the mirror', run: judgeMirror }],
}

async function judgeMirror({ scratch }) {
  const conformance = await goProgram(MODULE, VERSION, 'conformance')
  if (whyNoOlareg) throw new Skip(whyNoOlareg)
  await buildOlareg()
  const registry = await Olareg.start()
  const mirror = await startMirror(path.join(scratch, 'store'), ['--upstream', registry.url, '--tag-ttl', '0s'])
  const isRead = ({ method, url }) => (method === 'GET' || method === 'HEAD') && !url.includes('/blobs/uploads/')
  const splitter = await startSplitter((request) => ({ port: isRead(request) ? mirror.port : registry.port, path: request.url }))
  try {
    const results = path.join(scratch, 'results')
    const env = {
      ...process.env,
      OCI_REGISTRY: `127.0.0.1:${splitter.port}`,
      OCI_TLS: 'disabled',
      OCI_VERSION: '1.1',
      OCI_RESULTS_DIR: results,
      OCI_LOG: 'error',
      // The registry behind the mirror deletes at once, and the mirror keeps what it has: see docs/how-to/mirror.md.
      OCI_API_BLOBS_DELETE: 'false',
      OCI_API_MANIFESTS_DELETE: 'false',
      OCI_API_TAGS_DELETE: 'false',
    }
    await run(conformance, [], { ms: RUN_MS, cwd: scratch, env })
    return { version: VERSION, cases: junitCases(readFileSync(path.join(results, 'junit.xml'), 'utf8')) }
  } finally {
    await splitter.stop()
    await mirror.stop()
    await registry.stop()
  }
}
