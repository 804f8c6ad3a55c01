// `watchfire top` in a real terminal, and `watchfire doctor --operator`, beside a real server with stock clients.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { newFolder } from '../lib/folders.mjs'
import { newest } from '../lib/phoenix-clients.mjs'
import { Client } from '../lib/test-client.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { ROOMS, binary, startWatchfire } from '../lib/server.mjs'
import { TmuxTerminal, hasTmux } from '../lib/tmux.mjs'

const TOKEN = 'a token of the operator'
const CLIENTS = 8

/** A topic as a hostile client chooses it: it would clear the screen, turn the direction, hide, and be very long. */
const HOSTILE = `rooms:\u001b[2J\u001b]0;owned\u0007\u009b31m\r\n\u202eevil\u200b日本👩\u200d👩${'e\u0301\u0301\u0301'.repeat(5)}${'x'.repeat(120)}`

const variant = { library: newest, isPoll: false, options: {} }

const start = (settings) => startWatchfire({ processes: 1, settings: { ...ROOMS, 'admin.token': TOKEN, 'server.shards': 1, ...settings } })

/** Connects clients: client n joins n + 1 rooms. The last one joins a hostile topic too. */
async function connectClients(server, clients) {
  for (let n = 0; n < CLIENTS; n++) {
    // A client whose connection ends does not return.
    const client = new Client(server, variant, { reconnectAfterMs: () => 3_600_000 })
    clients.push(client)
    for (let room = 0; room <= n; room++) await client.join(`rooms:${room}`)
  }
  await clients.at(-1).join(HOSTILE)
}

async function stop(server, clients) {
  for (const client of clients) client.socket.disconnect()
  await server?.stop()
}

describe('watchfire top', { skip: !hasTmux && 'tmux is not installed' }, () => {
  const clients = []
  const folder = newFolder()
  let server, terminal, url

  before(async () => {
    server = await start({})
    await connectClients(server, clients)
    writeFileSync(path.join(folder, 'token'), `${TOKEN}\n`)
    url = new URL(await server.admin('/')).origin
    terminal = new TmuxTerminal()
    terminal.run(`PS1='shell> '; clear`)
    await terminal.shows(/^shell>$/m)
    terminal.run(`${binary('watchfire')} top --operator ${url} --token-file ${folder}/token; echo "code $?"`)
    await terminal.shows(/1 Home +2 Connections/)
  })

  after(async () => {
    terminal?.end()
    await stop(server, clients)
  })

  it('shows the figures of the server', async () => {
    await terminal.shows(/clients [^\n]*\b8 /)
    await terminal.shows(/connections +─+ +0% +\d+ of [\d,]+/)
    await terminal.shows(/No trouble\./)
    const [first] = terminal.lines()
    assert.match(first, /0\.1\.0 +up .* 1 process/)
  })

  it('sorts connections', async () => {
    terminal.press('2')
    await terminal.shows(/8 of \d+ connections, by queued bytes/)
    terminal.press('c')
    await terminal.shows(/8 of \d+ connections, by channels/)
    const channels = terminal
      .lines()
      .flatMap((line) => /^127\.0\.0\.1:\d+ +ws .* (\d+) rooms:/.exec(line)?.[1] ?? [])
      .map(Number)
    assert.deepEqual(channels, [9, 7, 6, 5, 4, 3, 2, 1])
  })

  it('shows hostile topics as text that harms no other line', async () => {
    terminal.press('3')
    await terminal.shows(/The 9 largest topics/)
    const lines = terminal.lines()
    const at = lines.findIndex((line) => line.includes('rooms:␛[2J␛]0;owned␇'))
    assert(at > 0, lines.join('\n'))
    assert.match(lines[at], /^ {11}1 .* rooms:␛\[2J␛\]0;owned␇\ufffd31m␍␊\ufffdevil\ufffd日本/)
    assert.match(lines[3], /subscribers +msg\/s +bytes\/s .*topic/)
    assert.match(lines[4], /^ {11}8 .* rooms:0$/)
    assert.notEqual(terminal.value('pane_title'), 'owned')
    // The last line still has the keys: nothing has wrapped.
    assert.match(lines[29], /^Enter connections +x end +\/ prefix +< > sort +\? help +q quit/)
  })

  it('finds topics by prefix, and their connections', async () => {
    terminal.press('/')
    terminal.type('rooms:6')
    await terminal.shows(/prefix: rooms:6▏/)
    terminal.press('Enter')
    await terminal.shows(/1 topic, prefix: rooms:6/)
    terminal.press('Enter')
    await terminal.shows(/2 of \d+ connections, by channels, topic: rooms:6/)
    terminal.press('Escape')
    await terminal.shows(/8 of \d+ connections, by channels$/m)
  })

  it('shows the details of a connection, and disconnects it after a question', async () => {
    terminal.press('Down')
    terminal.press('Enter')
    await terminal.shows(/7 channels\n +rooms:/)
    terminal.press('w')
    await terminal.shows(/Messages, the last one first.*\n +None yet\./)
    clients[6].socket.channels[0].push('new_msg', { body: 'hello' })
    await terminal.shows(/\d\d:\d\d:\d\d from client new_msg +16 B +rooms:/)
    terminal.press('w')
    await terminal.shows(/7 channels\n +rooms:/)
    const [, port] = await terminal.shows(/address +127\.0\.0\.1:(\d+)/)
    terminal.press('x')
    await terminal.shows(new RegExp(`Disconnect 127\\.0\\.0\\.1:${port}, [\\d-]+\\? y: yes`))
    terminal.press('n')
    await terminal.shows(/Esc back +w messages +x disconnect/)
    assert(clients.every((client) => client.socket.isConnected()))
    terminal.press('x')
    await terminal.shows(/\? y: yes/)
    terminal.press('y')
    await terminal.shows(/The server has disconnected the connection [\d-]+\./)
    await terminal.shows(/is gone\. These were its last figures/)
    const closed = await clients[6].closed.next()
    assert.equal(closed.code, 1001)
    assert.equal(clients.filter((client) => client.socket.isConnected()).length, CLIENTS - 1)
    terminal.press('Escape')
    await terminal.shows(/7 of \d+ connections/)
  })

  it('follows the size of the terminal', async () => {
    terminal.resize(80, 24)
    await waitUntil(() => /\? help +q quit/.test(terminal.lines()[23]), 'the keys are on the last of 24 lines')
    terminal.resize(40, 10)
    await terminal.shows(/This terminal is 40x10;\nwatchfire top needs 60x15\./)
    terminal.resize(120, 40)
    await waitUntil(() => /\? help +q quit/.test(terminal.lines()[39]), 'the keys are on the last of 40 lines')
    await terminal.shows(/address +type +state +queued|address +type +state +▼?queued/)
  })

  it('draws the screen again on Ctrl-L', async () => {
    terminal.write('\u001b[2Joverwritten')
    await terminal.shows(/overwritten/)
    terminal.press('C-l')
    await waitUntil(() => !terminal.text().includes('overwritten'), 'the screen is drawn again')
    await terminal.shows(/\? help +q quit/)
  })

  it('names the processes and the events', async () => {
    terminal.press('4')
    await terminal.shows(/All processes answer\.\nprocess +clients/)
    terminal.press('5')
    await terminal.shows(/\d\d:\d\d:\d\d +start +Version 0\.1\.0 started/)
  })

  it('shows how old the figures are while the server is stopped, reacts to keys, and recovers', async () => {
    process.kill(server.pid, 'SIGSTOP')
    try {
      await terminal.shows(/data is \S+ old/)
      terminal.press('1')
      await terminal.shows(/broadcast p99/)
      assert.doesNotMatch(terminal.text(), /no answer in/, 'it waited for the server')
      await terminal.shows(/no answer in 5s/)
    } finally {
      process.kill(server.pid, 'SIGCONT')
    }
    await waitUntil(() => !/data is|no answer/.test(terminal.text()), 'the server answers again')
  })

  it('restores the shell when it quits', async () => {
    terminal.press('q')
    await terminal.shows(/code 0\nshell>$/m)
    assert.equal(terminal.value('alternate_on'), '0')
    assert.equal(terminal.value('cursor_flag'), '1')
    terminal.run('stty -a | grep -o " -\\?icanon\\| -\\?echo "')
    await terminal.shows(/^ icanon\n echo/m)
  })

  it('restores the shell when a signal ends it', async () => {
    terminal.run(
      `clear; sh -c 'echo $$ > ${folder}/pid; exec ${binary('watchfire')} top --operator ${url} --token-file ${folder}/token'; echo "code $?"`,
    )
    await terminal.shows(/No trouble\./)
    spawnSync('sh', ['-c', `kill -TERM $(cat ${folder}/pid)`])
    await terminal.shows(/code 143\nshell>$/m)
    assert.equal(terminal.value('alternate_on'), '0')
  })

  it('has no colours with NO_COLOR, and none that a light terminal cannot show', async () => {
    terminal.run(`clear; NO_COLOR=1 ${binary('watchfire')} top --operator ${url}`)
    await terminal.shows(/requires the operator's token: set WATCHFIRE_ADMIN_TOKEN/)
    assert.doesNotMatch(terminal.styled(), /\u001b\[(?:\d+;)*(?:3[0-7]|9[0-7]|4[0-7]|38|48)/)
    terminal.press('C-c')
    await terminal.shows(/shell>$/m)
    terminal.run(`clear; ${binary('watchfire')} top --operator ${url}`)
    await terminal.shows(/requires the operator's token/)
    // Red is the only colour, as the terminal defines it, and the background is always its own.
    assert.match(terminal.styled(), /\u001b\[38;5;1m/)
    assert.doesNotMatch(terminal.styled(), /\u001b\[(?:\d+;)*(?:4[0-7]|48|38;2|38;5;(?!1m))/)
    terminal.press('q')
    await terminal.shows(/shell>$/m)
  })
})

describe('watchfire doctor --operator', () => {
  const clients = []
  let server, url

  before(async () => {
    server = await start({ 'limits.sockets_max': CLIENTS })
    await connectClients(server, clients)
    url = new URL(await server.admin('/')).origin
  })

  after(() => stop(server, clients))

  const doctor = (args, token = '') => {
    const env = { ...process.env, WATCHFIRE_ADMIN_TOKEN: token }
    return spawnSync(binary('watchfire'), ['doctor', ...args], { encoding: 'utf8', env })
  }
  /** The output of `doctor`, once it ends with a code. */
  const untilCode = (code, what) =>
    waitUntil(
      () => {
        const { status, stdout } = doctor(['--operator', url], TOKEN)
        return status === code && stdout
      },
      what,
      60_000,
    )

  it('names a trouble that lasts, and says so with its exit code', async () => {
    const found = await untilCode(3, 'the server has trouble')
    assert.match(found, /^TROUBLE: 8 of 8 connections are open\n {2}since .*Z \(\d+s\)\n {2}fix {4}\S.*\n {2}page {3}https:/m)
    assert.match(found, /^connections +8 +8 +100\.0 % +limits\.sockets_max$/m)
    assert.match(found, /^0 +8 /m, 'the process with its clients')
  })

  it('has no trouble without one', async () => {
    for (const client of clients) client.socket.disconnect()
    assert.match(await untilCode(0, 'the trouble ends'), /\nNo trouble\.\n$/)
  })

  it('says what to do when it gets no state', () => {
    const failed = (args, token = '') => {
      const { status, stderr } = doctor(args, token)
      assert.equal(status, 1, stderr)
      return stderr
    }
    assert.match(failed(['--operator', url]), /requires the operator's token: set WATCHFIRE_ADMIN_TOKEN, or name a file with --token-file/)
    assert.match(failed(['--operator', url], 'another'), /it is not the one given/)
    assert.match(failed(['--operator', server.http('').replace(/\/$/, '')]), /use the address that admin\.listen names/)
    assert.match(
      failed(['--operator', 'http://127.0.0.1:1']),
      /Connection refused .*; check that the server runs, and that admin\.listen names this address/,
    )
  })
})
