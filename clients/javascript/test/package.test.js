import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const FOLDER = fileURLToPath(new URL('..', import.meta.url))
const TSC = path.join(FOLDER, 'node_modules/typescript/bin/tsc')

/** A program that uses every type of the package. */
const PROGRAM = `
import { Client, LongPoll, RefusedError, type Channel, type ChannelStatus, type Present } from '@watchfire/client'
import { connect, type Connection, type Reply, type Topic } from '@watchfire/client/connection'
const client = new Client('wss://example.com/socket', { getToken: async () => 'token', longPollFallbackMs: 2500, transport: LongPoll })
const channel: Channel = client.channel('news:today', { last: 50 })
const off: () => void = channel.on<{ text: string }>('note', ({ text }, position) => console.log(text.length, position?.length))
channel.onReload(({ isFirst }) => isFirst && off())
channel.onStatus((status: ChannelStatus) => status.kind === 'refused' && status.reason.length)
channel.onPresence((present: Present) => Object.keys(present))
channel.join().catch((error: unknown) => error instanceof RefusedError && error.reason)
// @ts-expect-error: a timeout is a number
channel.push('note', {}, '1s')
// @ts-expect-error: unknown option
new Client('wss://example.com/socket', { token: 'text' })
const connection: Connection = connect('wss://example.com/socket')
const topic: Topic = connection.join('news:today', ['note'], { joined: (response: unknown) => response })
topic.push('note', Uint8Array.of(1)).then((reply: Reply) => reply.status === 'ok' && reply.response)
`

test('the package has the built modules, their types and the README', (t) => {
  const target = mkdtempSync(path.join(tmpdir(), 'watchfire-client-'))
  t.after(() => rmSync(target, { recursive: true }))
  const [{ files }] = JSON.parse(
    execFileSync('npm', ['pack', '--json', '--dry-run', '--ignore-scripts'], { cwd: FOLDER, encoding: 'utf8' }),
  )
  const ofConnection = ['connection', 'frame', 'index', 'liveness', 'origin-refused', 'socket', 'topic'].map((name) => `connection/${name}`)
  const modules = ['channel', 'client', 'errors', 'history', 'index', 'socket', 'tokens', ...ofConnection]
  const licences = ['dist/LICENSE-APACHE', 'dist/LICENSE-MIT']
  const expected = ['README.md', 'package.json', ...licences, ...modules.flatMap((name) => [`dist/${name}.d.ts`, `dist/${name}.js`])]
  assert.deepEqual(files.map(({ path }) => path).sort(), expected.sort())
})

for (const moduleResolution of ['nodenext', 'bundler']) {
  test(`the types serve a strict program, with ${moduleResolution}`, (t) => {
    const project = mkdtempSync(path.join(tmpdir(), 'watchfire-client-'))
    t.after(() => rmSync(project, { recursive: true }))
    const installed = path.join(project, 'node_modules/@watchfire/client')
    mkdirSync(installed, { recursive: true })
    execFileSync('cp', ['-r', path.join(FOLDER, 'dist'), path.join(FOLDER, 'package.json'), installed])
    writeFileSync(path.join(project, 'package.json'), '{ "type": "module" }')
    writeFileSync(path.join(project, 'program.ts'), PROGRAM)
    const module = moduleResolution === 'nodenext' ? 'nodenext' : 'esnext'
    const flags = [
      '--noEmit',
      '--strict',
      '--target',
      'es2022',
      '--lib',
      'es2022,dom',
      '--types',
      '',
      '--module',
      module,
      '--moduleResolution',
      moduleResolution,
    ]
    const { status, stdout } = spawnSync(process.execPath, [TSC, ...flags, 'program.ts'], { cwd: project, encoding: 'utf8' })
    assert.equal(status, 0, stdout)
  })
}
