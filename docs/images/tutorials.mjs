// Takes the pictures of the tutorials: windows of real browsers, and what real programs print. `make pictures` runs it.
//
//   node docs/images/tutorials.mjs [NAME...]        all tutorials, or those that are named

import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'

import { picture } from '../../tests/interop/browser/fixtures.mjs'
import { launch } from '../../tests/interop/lib/chromium.mjs'
import { waitUntil } from '../../tests/interop/lib/deadlines.mjs'
import { newFolder } from '../../tests/interop/lib/folders.mjs'
import { Kubo } from '../../tests/interop/lib/kubo.mjs'
import { listeningPorts } from '../../tests/interop/lib/listening-ports.mjs'
import { Program, run } from '../../tests/interop/lib/program.mjs'
import { makeImage, push, Registry } from '../../tests/interop/lib/registry.mjs'
import { binary, environment, start, startMirror, startWatchfire } from '../../tests/interop/lib/server.mjs'

const MODULES = new URL('../../tests/interop/node_modules/', import.meta.url)
const { Socket } = await import(new URL('phoenix-1.8.16/priv/static/phoenix.mjs', MODULES).href)
const { WebSocket } = await import(new URL('ws/wrapper.mjs', MODULES).href)
const TO = fileURLToPath(new URL('tutorials/', import.meta.url))
const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url))
const BYTES_MAX = 60_000
const WATCHFIRE = binary('watchfire')

/** Each tutorial, and what takes its picture. */
const TUTORIALS = { channels, cursors, 'fetch-with-kubo': kubo, images, 'load-test': loadTest }

const named = process.argv.slice(2)
const unknown = named.find((name) => !Object.hasOwn(TUTORIALS, name))
if (unknown) throw new Error(`cannot take a picture of ${unknown}: name some of ${Object.keys(TUTORIALS).join(', ')}`)

const folder = newFolder()
const browser = await launch()
/** The ends of what a tutorial has started, the last one first. */
const ends = [() => browser.close()]
try {
  mkdirSync(TO, { recursive: true })
  for (const name of named.length > 0 ? named : Object.keys(TUTORIALS)) compress(name, await TUTORIALS[name]())
} finally {
  for (const end of ends.toReversed()) await end()
}

/** The program of the tutorial, and what its clients write in their consoles. */
async function channels() {
  const server = await start(binary('orders'), [], /:(\d+)\/socket$/)
  ends.push(() => server.stop())
  const consoles = [[], []]
  const open = (topic, lines) => {
    const print = (text, value) => lines.push(`${text} ${typeof value === 'string' ? value : inspect(value)}`)
    const socket = new Socket(`ws://localhost:${server.port}/socket`, { transport: WebSocket })
    socket.connect()
    ends.push(() => socket.disconnect())
    const channel = socket.channel(topic)
    channel.on('note', (payload) => print('another client wrote', payload))
    const joined = channel.join()
    return new Promise((resolve) => {
      joined.receive('ok', () => resolve(channel)).receive('error', ({ reason }) => resolve(print('refused:', reason)))
    })
  }
  await open('orders:7', consoles[0])
  const second = await open('orders:7', [])
  second.push('note', { text: 'two eggs' })
  await waitUntil(() => consoles[0].length === 1, 'the first client gets the note')
  await open('orders:tea', consoles[1])
  return drawn(
    terminal('Terminal', `$ cargo run -p orders\n${server.lines.join('\n')}`) +
      terminal('Console of the first client, when a second one has joined', consoles[0].join('\n')) +
      terminal('Console of a client that joins orders:tea', consoles[1].join('\n')),
  )
}

/** The windows of two visitors, with the files of the tutorial. */
async function cursors() {
  const [ours, theirs] = await listeningPorts(2)
  const text = readFileSync(path.join(REPOSITORY, 'docs/tutorial/cursors.md'), 'utf8')
    .replaceAll('localhost:4000', `localhost:${ours}`)
    .replaceAll('localhost:8000', `localhost:${theirs}`)
  const at = (name) => path.join(folder, name)
  for (const [, name, content] of text.matchAll(/^`([\w.]+)`:\n\n```\w+\n(.*?)^```$/gms)) writeFileSync(at(name), content)
  for (const name of ['token-secret', 'api-key']) writeFileSync(at(name), 'only-for-a-picture-and-long-enough-for-a-key')
  mkdirSync(at('node_modules'))
  symlinkSync(fileURLToPath(new URL('phoenix-1.8.16', MODULES)), at('node_modules/phoenix'))
  const env = { ...environment(), WATCHFIRE_API_KEY: readFileSync(at('api-key'), 'utf8') }
  const listen = ['--listen', `127.0.0.1:${ours}`, '--set', 'admin.listen=127.0.0.1:0']
  const programs = [
    new Program(WATCHFIRE, ['serve', '--config', 'watchfire.toml', ...listen], { cwd: folder, env }),
    new Program('uvicorn', ['app:app', '--port', String(theirs)], { cwd: folder }),
  ]
  for (const program of programs) {
    ends.push(() => program.stop())
    await program.until(() => /running (at|on)/i.test(program.output), 'it listens')
  }
  const tabs = []
  for (const name of ['ada', 'bob']) {
    const tab = await browser.newPage({ viewport: { width: 456, height: 220 } })
    await tab.goto(`http://localhost:${theirs}/?name=${name}`)
    tabs.push(tab)
  }
  const [ada, bob] = tabs
  for (const tab of tabs) await tab.waitForFunction(() => document.getElementById('people').textContent.includes(', '))
  await ada.mouse.move(170, 120)
  await bob.mouse.move(270, 80)
  for (const tab of tabs) await tab.locator('.cursor').nth(1).waitFor()
  const shots = await Promise.all(tabs.map((tab) => tab.screenshot()))
  const windows = shots.map((shot) => `<img src="data:image/png;base64,${shot.toString('base64')}">`)
  return drawn(`<div class="beside">${windows.join('')}</div>`)
}

/** The output of both programs, in both directions. */
async function kubo() {
  mkdirSync(path.join(folder, 'trip'))
  writeFileSync(path.join(folder, 'trip/hills.png'), picture(400, 300))
  writeFileSync(path.join(folder, 'film.mp4'), randomBytes(3 << 20))
  const share = new Program(WATCHFIRE, ['share', 'trip'], { cwd: folder })
  ends.push(() => share.stop())
  await share.until(() => share.output.includes('Ctrl-C'), 'it shares')
  const node = await Kubo.start()
  ends.push(() => node.stop())
  const [, address, peer] = /peer=(\/ip4\/[^&\s]*?)\/p2p\/(\w+)/.exec(share.output)
  const root = /^\w+/.exec(share.output)[0]
  const commands = [
    ['swarm', 'connect', `${address}/p2p/${peer}`],
    ['get', root, '-o', path.join(folder, 'again')],
    ['add', '--cid-version=1', '--chunker=size-1048576', path.join(folder, 'film.mp4')],
  ]
  const lines = []
  for (const command of commands) lines.push(`$ ipfs ${command.join(' ')}`, await node.command(command))
  const film = await node.add(path.join(folder, 'film.mp4'), '--cid-version=1', '--chunker=size-1048576')
  const get = ['get', film, '--peer', `${node.address}`, '-o', 'received.mp4']
  const { stdout } = await run(WATCHFIRE, get, { cwd: folder })
  return drawn(
    terminal('First terminal', `$ watchfire share trip\n${share.output}`) +
      terminal('Second terminal', `${lines.join('\n')}\n$ watchfire ${get.join(' ')}\n${stdout}`),
  )
}

/** The status of both mirrors. */
async function images() {
  const registry = await Registry.start(path.join(folder, 'registry'))
  ends.push(() => registry.stop())
  await push(registry, 'library/alpine', 'latest', makeImage([(3 << 20) + 5, 1000]))
  writeFileSync(path.join(folder, 'fleet.key'), (await run(WATCHFIRE, ['mirror', 'key'])).stdout)
  const args = ['--upstream', `docker.io=${registry.url}`, '--fleet-key', path.join(folder, 'fleet.key')]
  const first = await startMirror(path.join(folder, 'one'), [...args, '--peer-listen', '127.0.0.1:5001'])
  ends.push(() => first.stop())
  const second = await startMirror(path.join(folder, 'two'), [
    ...args,
    ...['--peer-listen', '127.0.0.1:5003', '--join', '127.0.0.1:5001', '--offline-ok'],
  ])
  ends.push(() => second.stop())
  const status = async () => (await fetch(`http://127.0.0.1:${second.port}/status`)).text()
  await waitUntil(async () => (await status()).includes('"known_hosts":1'), 'the second mirror has joined')
  const print = async (port, shown, ...command) => {
    const { stdout, stderr } = await run(WATCHFIRE, ['mirror', ...command, '--mirror', `http://127.0.0.1:${port}`])
    return `$ watchfire mirror ${command.join(' ')} --mirror http://127.0.0.1:${shown}\n${stdout}${stderr}`.replaceAll(String(port), shown)
  }
  return drawn(
    terminal('The first host', await print(first.port, '5000', 'preload', 'alpine')) +
      terminal('The second host', (await print(second.port, '5002', 'preload', 'alpine')) + (await print(second.port, '5002', 'status'))),
  )
}

/** The upper part of the report. */
async function loadTest() {
  const server = await startWatchfire({ settings: { 'channels.open_rooms': true } })
  ends.push(() => server.stop())
  const report = path.join(folder, 'lobby.html')
  const target = `ws://localhost:${server.port}`
  await run(WATCHFIRE, ['load', 'examples/load/lobby.toml', '--to', target, '--report', report], { cwd: REPOSITORY })
  const tab = await browser.newPage({ viewport: { width: 900, height: 700 }, colorScheme: 'dark' })
  await tab.goto(`file://${report}`)
  return tab.screenshot()
}

/** A window of a terminal or a console. CIDs and peer ids are cut, as in the texts of the tutorials. */
function terminal(title, text) {
  const cut = text.replaceAll(`${folder}/`, '').replaceAll(/\b(baf\w{7}|12D3Koo\w{4})\w{20,}/g, '$1…')
  const escaped = cut.trim().replaceAll('&', '&amp;').replaceAll('<', '&lt;')
  const lines = escaped.replaceAll(/^\$ .*$/gm, (command) => `<b>${command}</b>`)
  return `<figure><figcaption>${title}</figcaption><pre>${lines}</pre></figure>`
}

/** A screenshot of these windows. */
async function drawn(html) {
  const tab = await browser.newPage({ viewport: { width: 960, height: 100 } })
  await tab.setContent(`<!doctype html><style>
    body { margin: 0; padding: 16px; display: grid; gap: 14px; background: #15100d; color: #f4e6d8; font: 15px system-ui }
    figure { margin: 0 } figcaption { margin-bottom: 6px; color: #b9a797 } img { border-radius: 6px; background: white }
    pre { margin: 0; padding: 12px 14px; border-radius: 6px; background: #241b16; font: 14px/1.5 monospace; white-space: pre-wrap; overflow-wrap: anywhere }
    b { color: #ffb27a } .beside { display: flex; gap: 16px }
  </style>${html}`)
  return tab.screenshot({ fullPage: true })
}

function compress(name, png) {
  const from = path.join(folder, `${name}.png`)
  const to = path.join(TO, `${name}.webp`)
  writeFileSync(from, png)
  execFileSync('cwebp', ['-quiet', '-lossless', '-z', '9', from, '-o', to])
  const { size } = statSync(to)
  console.log(`${path.basename(to)}: ${size} bytes`)
  if (size > BYTES_MAX) throw new Error(`cannot keep ${to}: it has more than ${BYTES_MAX} bytes; make the picture simpler`)
}
