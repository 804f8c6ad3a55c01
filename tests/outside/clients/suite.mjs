// Clients of Phoenix Channels by other authors, each in a program of its own.

import { readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { API_KEY, api } from '../../interop/lib/http-api.mjs'
import { startWatchfire } from '../../interop/lib/server.mjs'
import { casesOf } from '../lib/program.mjs'
import { cargoProgram, python, PYTHON_LIBRARY } from '../lib/tools.mjs'
import { SECRET } from './secret.mjs'

const REALTIME = 'realtime==2.34.1'
const PHOENIX = 'phoenix-channels-python-client==0.4.1'
const RUST_FOLDER = fileURLToPath(new URL('rust', import.meta.url))
const RUST_VERSION = /^phoenix_channels_client = "=(.*)"$/m.exec(readFileSync(path.join(RUST_FOLDER, 'Cargo.toml'), 'utf8'))[1]
const RUN_MS = 2 * 60_000

export const suite = {
  title: 'Clients of Phoenix Channels',
  about:
    'Clients by other authors join topics of a rule, hear what is published, publish themselves and leave. Those that reconnect come ' +
    'back after the server has restarted on the same port.',
  parts: [
    { judged: '@supabase/realtime-js', run: judgedBy(nodeWith('realtime.mjs'), versionOf('@supabase/realtime-js')) },
    { judged: 'realtime (Python)', run: judgedBy(pythonWith(REALTIME, 'realtime_client.py'), REALTIME.split('==')[1]) },
    { judged: 'phoenix-channels-python-client', run: judgedBy(pythonWith(PHOENIX, 'phoenix_client.py'), PHOENIX.split('==')[1]) },
    // Compiles a hundred crates once.
    { judged: 'phoenix_channels_client (Rust)', run: judgedBy(rustProgram, RUST_VERSION), isInSlice: false },
  ],
}

function versionOf(name) {
  const file = fileURLToPath(new URL(`../node_modules/${name}/package.json`, import.meta.url))
  return JSON.parse(readFileSync(file, 'utf8')).version
}

const fileOf = (program) => fileURLToPath(new URL(program, import.meta.url))

// The programs of the clients, each with its first arguments.

function nodeWith(program) {
  return () => [process.execPath, fileOf(program)]
}

function pythonWith(packages, program) {
  return async () => [path.join(await python([packages]), 'python'), fileOf(program)]
}

/** The crate needs functions that tokio calls unstable. */
async function rustProgram() {
  return [await cargoProgram(RUST_FOLDER, 'watchfire-outside-client', { flags: '--cfg tokio_unstable' })]
}

const RULES = [
  '{ pattern = "realtime:orders*", publish = "clients", presence = true }',
  '{ pattern = "realtime:*", join = "anyone", publish = "clients" }',
]
const SETTINGS = { 'api.key': API_KEY, 'auth.hs256_secret': SECRET, 'auth.leeway': '0s', 'channels.rules': `[${RULES.join(', ')}]` }

/** The cases of a client's program, in a slice only those of the first version of the protocol. The program asks for what it cannot do itself: see `ASKED`. */
function judgedBy(client, version) {
  return async ({ isSlice }) => {
    const [program, ...first] = await client()
    const state = { server: await startWatchfire({ settings: SETTINGS }) }
    const args = [...first, String(state.server.port), ...(isSlice ? ['--slice'] : [])]
    const env = { ...process.env, PYTHONPATH: PYTHON_LIBRARY }
    try {
      return { version, cases: await casesOf(program, args, (ask, rest) => ASKED[ask](state, rest), { ms: RUN_MS, env }) }
    } finally {
      await state.server.stop()
    }
  }
}

const ASKED = {
  /** A message of the server's side. */
  publish: ({ server }, { topic, event, payload }) => api(server, 'publish', { topic, event, payload }),
  /** A new server on the port of the old one. */
  restart: async (state) => {
    const { port } = state.server
    await state.server.stop()
    state.server = await startWatchfire({ port, settings: SETTINGS })
  },
}
