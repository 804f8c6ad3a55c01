// Faults in a running server under load. For each, the operator's page, the calls, the log and `watchfire top` name
// the cause within fifteen seconds. With FAULTS_TABLE=FILE, the seconds that each took are written there as a table.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { networkInterfaces } from 'node:os'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'

import { WebSocket } from 'ws'

import { certify } from '../lib/certificate.mjs'
import { collectPageErrors, launch } from '../lib/chromium.mjs'
import { waitUntil } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { Libp2pHost } from '../lib/libp2p-host.mjs'
import { Cuttable, buildNats, startNats, whyNoNats } from '../lib/nats.mjs'
import { Program } from '../lib/program.mjs'
import { RawWebSocket, binaryPush } from '../lib/raw-socket.mjs'
import { ROOMS, binary, startChat, startWatchfire } from '../lib/server.mjs'
import { join, openSocket } from '../lib/room-sockets.mjs'
import { TmuxTerminal, hasTmux } from '../lib/tmux.mjs'

/** A person who opens the page sees the cause within this time. */
const NAMED_MS = 15_000

/** How long a trouble may last after its cause is gone. */
const ENDED_MS = 90_000

const ROOM = 'rooms:lobby'
const TOKEN = 'a-token-of-the-operator'

const whyNoMount = process.getuid() !== 0 && 'mounting needs root'
const whyNoFaketime = !existsSync('/usr/bin/faketime') && 'faketime is not installed'

describe('a fault in a server under load is named', { timeout: 1_200_000 }, () => {
  const folder = newFolder()
  let browser
  const table = []

  before(async () => {
    browser = await launch()
  })

  after(async () => {
    await browser?.close()
    if (process.env.FAULTS_TABLE) writeFileSync(process.env.FAULTS_TABLE, markdown(table))
  })

  /** Injects a fault when the server is `ready`, and asserts that the calls, the log and the page name it in time. */
  async function isNamed(kind, options) {
    const { fault, settings = {}, processes = 1, start = startWatchfire, within = [], lastsMs = 0 } = options
    const { ready = (_server, _undo) => {}, inject, scheme = 'ws', ends = true } = options
    // Some faults must last before they are a trouble.
    const namedMs = NAMED_MS + lastsMs
    // An application has a log of its own.
    const logs = start === startWatchfire
    const server = await start({ processes, within, settings: { ...ROOMS, 'limits.loopback_limited': 'false', ...settings } })
    const undo = []
    const context = await browser.newContext()
    try {
      const load = await chatter(server, scheme)
      undo.push(() => load.stop())
      const errors = await collectPageErrors(context)
      const page = await context.newPage()
      await page.goto(await server.admin('/'))
      if (settings['admin.token']) {
        await page.getByLabel('Token').fill(TOKEN)
        await page.getByRole('button', { name: 'Open' }).click()
      }
      const terminal = hasTmux && new TmuxTerminal({ columns: 200, rows: 50 })
      if (terminal) {
        undo.push(() => terminal.end())
        terminal.run(`WATCHFIRE_ADMIN_TOKEN=${TOKEN} ${binary('watchfire')} top --operator ${await server.admin('')}`)
        await terminal.shows(/1 Home +2 Connections/)
      }
      await waitUntil(async () => (await state(server)).latest?.messages > 0, 'the page has figures')
      const later = (action) => undo.push(action)
      await ready(server, later)
      const began = performance.now()
      await inject(server, later)
      const seconds = () => Math.round((performance.now() - began) / 100) / 10
      const trouble = await waitUntil(
        async () => (await state(server)).troubles.find((one) => one.kind === kind),
        `the call names ${kind}`,
        namedMs,
      )
      const byCall = seconds()
      await page
        .getByText(trouble.fix)
        .first()
        .waitFor({ timeout: namedMs - (performance.now() - began) })
      const onPage = seconds()
      const left = namedMs - (performance.now() - began)
      if (terminal) await waitUntil(() => terminal.text().includes(trouble.fix), `top names ${kind}`, left)
      const inTop = terminal ? `${seconds()} s` : 'not run'
      if (logs) await waitUntil(() => server.stderr.includes(`kind="${kind}"`), `the log names ${kind}`, namedMs)
      assert((await server.metric('watchfire_trouble', `kind="${kind}"`)) === 1)
      // Where there is a token, the page learns that it needs one from a 401.
      assert.deepEqual(
        errors.filter((error) => !error.includes('401')),
        [],
      )
      table.push({ fault, kind, byCall, onPage, inTop, summary: trouble.summary })
      for (const action of undo.splice(0).reverse()) await action()
      if (ends) await hasEnded(server)
      if (ends && logs) assert.match(server.stderr, /trouble ended/)
      await context.close()
      await server.stop()
    } finally {
      await context.close()
      for (const action of undo.reverse()) await action()
      server.kill()
    }
  }

  /** Waits for the end of all trouble. */
  async function hasEnded(server) {
    await waitUntil(
      async () => {
        const { troubles, latest } = await state(server)
        return latest && troubles.length === 0
      },
      'the troubles end',
      ENDED_MS,
    )
  }

  it('a client that does not read', () =>
    isNamed('slow_consumer', {
      fault: 'One client stops reading',
      inject: async (server, undo) => {
        const slow = await join(server, 'rooms:slow')
        undo(() => slow.terminate())
        tcpOf(slow).pause()
        undo(await flood(server, 'rooms:slow', 4, 12_000))
      },
    }))

  it('many clients that do not read', () =>
    isNamed('queues_grow', {
      fault: 'Twelve clients stop reading',
      settings: { 'limits.queued_bytes_max': 64 * 2 ** 20 },
      inject: async (server, undo) => {
        for (let n = 0; n < 12; n++) {
          const slow = await join(server, 'rooms:slow')
          undo(() => slow.terminate())
          tcpOf(slow).pause()
        }
        // So slowly that no queue is full within the time of the test.
        undo(await flood(server, 'rooms:slow', 4, 12_000, 1))
      },
    }))

  /** A room with 400 members. */
  async function crowd(server, undo) {
    for (let n = 0; n < 400; n++) {
      const member = await join(server, 'rooms:large')
      undo(() => member.terminate())
      // The test does not parse what it gets, so it is faster than the server.
      tcpOf(member).removeAllListeners('data')
      tcpOf(member).resume()
    }
  }
  const floodCrowd = async (server, undo) => undo(await flood(server, 'rooms:large', 20, 100))

  it('an event loop with too much to do', () =>
    isNamed('shard_busy', {
      fault: 'One room with 400 members gets as many messages as the loop can send',
      settings: { 'server.shards': 1 },
      ready: crowd,
      inject: floodCrowd,
    }))

  it('broadcasts for which a queue has no place', () =>
    isNamed('overloaded', {
      fault: 'The same room, and its publishers do not wait for it',
      settings: { 'server.shards': 1, 'limits.queued_bytes_max': 64 * 2 ** 20 },
      ready: crowd,
      inject: floodCrowd,
    }))

  it('connections at their limit', () =>
    isNamed('connections_near_limit', {
      fault: 'The connections reach their limit',
      settings: { 'limits.sockets_max': 40, 'server.shards': 1 },
      inject: async (server, undo) => {
        for (let n = 0; n < 28; n++) {
          const client = await join(server, ROOM)
          undo(() => client.terminate())
        }
      },
    }))

  it('a server whose only libp2p peer ends', async () => {
    const hub = await Libp2pHost.start()
    await isNamed('no_libp2p_peers', {
      fault: 'The only libp2p peer ends',
      settings: { 'p2p.bootstrap': hub.address, 'p2p.listen': '/ip4/127.0.0.1/tcp/0' },
      ends: false,
      // A server has a minute to find its first peer.
      ready: (server) => waitUntil(async () => (await state(server)).processes[0]?.uptime_seconds > 61, 'a minute passes', 90_000),
      inject: () => hub.stop(),
    }).finally(() => hub.stop())
  })

  it('peers that have used up the relay', () =>
    isNamed('relay_quota', {
      fault: 'A reader takes more from the relay than an address may send in a day',
      settings: { 'limits.loopback_limited': 'true', 'limits.relay_bytes_per_day_per_address': 100_000 },
      inject: async (server, undo) => {
        const file = path.join(folder, 'large.bin')
        writeFileSync(file, randomBytes(4 << 20))
        const start = (...args) => {
          const program = new Program(binary('watchfire'), [...args, '--relay-only'])
          undo(() => program.stop())
          return program
        }
        const share = start('share', file, '--to', server.http(''))
        const link = await share.until(() => /http\S+\/p\/\S+/.exec(share.output)?.[0], 'the link')
        start('get', link, '--output', path.join(folder, 'copy.bin'))
      },
    }))

  it('a queue of new connections that overflows', () =>
    isNamed('backlog_overflow', {
      fault: 'The server is stopped for a moment while 400 clients connect',
      inject: async (server, undo) => {
        const { hostname, port } = new URL(await server.admin('/'))
        process.kill(server.pid, 'SIGSTOP')
        const sockets = Array.from({ length: 400 }, () => net.connect(Number(port), hostname).on('error', () => {}))
        undo(() => {
          for (const socket of sockets) socket.destroy()
        })
        await waitUntil(() => overflows() > 0, 'the kernel drops connections')
        process.kill(server.pid, 'SIGCONT')
      },
    }))

  it('NATS that is gone', { skip: whyNoNats }, async () => {
    await buildNats()
    const [nats] = await startNats(1)
    const way = await Cuttable.to(nats.port)
    await isNamed('nats_away', {
      fault: 'The connection to NATS is cut',
      settings: { 'cluster.nats': way.url },
      inject: async (_, undo) => {
        await way.cut()
        undo(() => way.open())
      },
    }).finally(() => Promise.all([way.close(), nats.kill()]))
  })

  it('NATS that refuses messages', { skip: whyNoNats }, async () => {
    await buildNats()
    const file = path.join(folder, 'nats.conf')
    // The server reloads no file that lacks the name which it has from its arguments.
    const configure = (permissions) =>
      writeFileSync(
        file,
        `server_name: nats-0\nauthorization { users: [{ user: watchfire, password: x, permissions: { publish: ${permissions} } }] }`,
      )
    configure('{ allow: ">" }')
    const [nats] = await startNats(1, ['-c', file])
    const reload = (permissions) => {
      configure(permissions)
      process.kill(nats.pid, 'SIGHUP')
    }
    await isNamed('nats_refuses', {
      fault: 'The NATS user loses the right to publish',
      settings: { 'cluster.nats': nats.url.replace('//', '//watchfire:x@') },
      inject: async (_, undo) => {
        reload('{ deny: "watchfire.>" }')
        undo(() => reload('{ allow: ">" }'))
      },
    }).finally(() => nats.kill())
  })

  it('a stream of histories that somebody else made', { skip: whyNoNats }, async () => {
    await buildNats()
    const [nats] = await startNats(1)
    const name = 'test-faults-history-100-300s'
    await isNamed('histories_away', {
      fault: 'The stream of the histories is replaced by another one',
      settings: {
        'cluster.nats': nats.url,
        'cluster.prefix': 'test.faults',
        'channels.rules': '[{ pattern = "kept:*", join = "anyone", history = {} }]',
      },
      inject: async (_, undo) => {
        await nats.request(`$JS.API.STREAM.DELETE.${name}`)
        await nats.request(`$JS.API.STREAM.CREATE.${name}`, { name, subjects: ['other'] })
        undo(() => nats.request(`$JS.API.STREAM.DELETE.${name}`))
      },
    }).finally(() => nats.kill())
  })

  it('a backend that does not answer', () =>
    isNamed('backend_away', {
      fault: 'The backend of hooks is not there',
      ends: false,
      settings: {
        'hooks.url': 'http://127.0.0.1:9/hooks',
        'hooks.secret': 'a secret of at least thirty-two bytes',
        'channels.rules': '[{ pattern = "asked:*", join = "anyone", hooks = ["join"] }]',
      },
      inject: async (server, undo) => {
        const client = await openSocket(server)
        const asking = setInterval(() => client.send(JSON.stringify(['9', '9', 'asked:1', 'phx_join', {}])), 50)
        undo(() => {
          clearInterval(asking)
          client.terminate()
        })
      },
    }))

  it('a page of another origin', () =>
    isNamed('origin_refused', {
      fault: 'A page of another origin connects',
      inject: async (server, undo) => {
        const attempt = () =>
          new WebSocket(`${server.endpoint}/websocket?vsn=2.0.0`, { origin: 'http://other.example' }).on('error', () => {})
        const attempts = setInterval(attempt, 500)
        undo(() => clearInterval(attempts))
      },
    }))

  it('a certificate that expires', () => {
    const { cert, key } = certify(folder, ['localhost'])
    return isNamed('certificate_expires', {
      fault: 'The certificate is valid for two more days',
      scheme: 'wss',
      ends: false,
      settings: { 'tls.cert': cert, 'tls.key': key },
      inject: () => {},
    })
  })

  it('a process that does not answer', () =>
    isNamed('process_silent', {
      fault: 'One of three processes is stopped (SIGSTOP)',
      processes: 3,
      inject: (server, undo) => {
        const worker = server.workers().at(-1)
        process.kill(worker, 'SIGSTOP')
        undo(() => {
          // The supervisor has killed it by now, or does it soon.
          try {
            process.kill(worker, 'SIGCONT')
          } catch (error) {
            assert.equal(error.code, 'ESRCH')
          }
        })
      },
    }))

  it('an application whose channel fails', () =>
    isNamed('channels_crash', {
      fault: 'A callback of an application fails',
      start: startChat,
      inject: async (server, undo) => {
        const client = await join(server, ROOM)
        undo(() => client.terminate())
        client.send(JSON.stringify(['1', '2', ROOM, 'crash', {}]))
      },
    }))

  it('a process that may open no more files', () =>
    isNamed('descriptors_near_limit', {
      fault: 'The limit of open files is just above those that are open',
      inject: ({ pid }, undo) => {
        const limit = (soft) => execFileSync('prlimit', ['--pid', String(pid), `--nofile=${soft}:`])
        const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, 'utf8'))
        limit(Math.floor(readdirSync(`/proc/${pid}/fd`).length / 0.92))
        undo(() => limit(soft))
      },
    }))

  it('memory that is used up', { skip: whyNoMount }, () => {
    // The files in which the kernel shows a container the limit and the use of its memory group.
    const group = path.join(folder, 'group')
    mkdirSync(group)
    const show = (name, mib) => writeFileSync(path.join(group, `memory.${name}`), `${mib * 2 ** 20}\n`)
    show('max', 1000)
    show('current', 100)
    return isNamed('memory_low', {
      fault: 'The memory group of the server uses 950 of 1,000 MiB',
      within: ['unshare', '--mount', 'sh', '-c', 'mount --bind "$1" /sys/fs/cgroup && shift && exec "$@"', 'sh', group],
      inject: (_, undo) => {
        show('current', 950)
        undo(() => show('current', 100))
      },
    })
  })

  it('a clock that is set', { skip: whyNoFaketime }, () => {
    const offset = path.join(folder, 'offset')
    writeFileSync(offset, '+0')
    const library = 'LD_PRELOAD=/usr/$LIB/faketime/libfaketimeMT.so.1'
    const options = ['FAKETIME_DONT_FAKE_MONOTONIC=1', 'FAKETIME_CACHE_DURATION=1', 'FAKETIME_DISABLE_SHM=1']
    return isNamed('clock_jump', {
      fault: 'The clock of the machine is set 30 s forward',
      within: ['env', library, `FAKETIME_TIMESTAMP_FILE=${offset}`, ...options],
      inject: () => writeFileSync(offset, '+30'),
    })
  })

  it('STUN that no browser from outside reaches', () => {
    const outside = Object.values(networkInterfaces()).flat()
    const own = outside.find(({ family, internal }) => family === 'IPv4' && !internal)?.address
    return isNamed('stun_unreached', {
      fault: 'Browsers from outside call each other, and none has reached STUN',
      settings: { 'stun.listen': '0.0.0.0:0' },
      lastsMs: 30_000,
      // On a machine without a network, nobody comes from outside.
      ends: own !== undefined,
      inject: async (server, undo) => {
        const topic = 'page:bafkreieq5jui4j25lacwomsqgjeswwl3y5zcdrresptwgmfylxo2depppq'
        const enter = async () => {
          const headers = { 'X-Forwarded-For': '203.0.113.1' }
          const socket = await RawWebSocket.open({ after: undo }, server, { headers })
          const [, , , , { response }] = await socket.request(['1', '1', topic, 'phx_join', { have: 'none' }])
          return { socket, peer: Buffer.from(response.peer, 'hex'), stun: response.stun }
        }
        const [one, other] = [await enter(), await enter()]
        one.socket.binary(binaryPush({ joinRef: '1', ref: '2', topic, event: 'signal', data: other.peer }))
        undo(async () => {
          const browser = createSocket('udp4')
          const request = Buffer.concat([Buffer.from([0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42]), Buffer.from('twelve bytes')])
          await new Promise((sent) => browser.send(request, one.stun.port, own ?? '127.0.0.1', sent))
          browser.close()
        })
      },
    })
  })

  it('a neighbour that gives no list of its pages', () =>
    isNamed('neighbour_silent', {
      fault: 'Nothing listens at the address of a neighbour',
      settings: { 'neighbours.servers': '["http://127.0.0.1:1"]' },
      lastsMs: 30_000,
      ends: false,
      inject: () => {},
    }))

  it('a disk that is full', { skip: whyNoMount }, () => {
    const disk = path.join(folder, 'disk')
    mkdirSync(disk)
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=40m', 'tmpfs', disk])
    return isNamed('disk_nearly_full', {
      fault: 'The disk of the state folder is full',
      settings: { 'admin.history_file': path.join(disk, 'history') },
      inject: (_, undo) => {
        const filler = path.join(disk, 'filler')
        const { bavail, bsize } = statfsSync(disk)
        writeFileSync(filler, Buffer.alloc(Math.floor(0.98 * bavail * bsize)))
        undo(() => rmSync(filler))
      },
    }).finally(() => execFileSync('umount', [disk]))
  })

  it('somebody who guesses the token', () =>
    isNamed('operator_refused', {
      fault: 'Somebody guesses the admin token',
      settings: { 'admin.token': TOKEN },
      inject: async (server, undo) => {
        const url = await server.admin('/admin/state')
        let guessed = 0
        const guess = () => fetch(url, { headers: { authorization: `Bearer guess number ${guessed++}` } }).catch(() => {})
        const guesses = setInterval(guess, 50)
        undo(() => clearInterval(guesses))
      },
    }))
})

/** The state, or one without troubles when there is no answer: one of several processes may be stopped. */
async function state(server) {
  try {
    const response = await fetch(await server.admin('/admin/state'), {
      headers: { connection: 'close', authorization: `Bearer ${TOKEN}` },
      signal: AbortSignal.timeout(2_000),
    })
    assert.equal(response.status, 200)
    return await response.json()
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error
    return { troubles: [], latest: null }
  }
}

/** Ten clients that chat, five messages a second each. */
async function chatter(server, scheme) {
  const clients = await Promise.all(Array.from({ length: 10 }, () => join(server, ROOM, scheme)))
  const timer = setInterval(() => {
    for (const client of clients) send(client, ROOM, 'hello')
  }, 200)
  const stop = () => {
    clearInterval(timer)
    for (const client of clients) client.terminate()
  }
  return { stop }
}

/** Clients that send to a room: bursts of messages, fifty times a second. Returns how to end it. */
async function flood(server, room, senders, bytes, burst = 10) {
  const body = 'x'.repeat(bytes)
  const clients = await Promise.all(Array.from({ length: senders }, () => join(server, room)))
  const timer = setInterval(() => {
    for (const client of clients) {
      for (let n = 0; n < burst && client.bufferedAmount < 2 ** 18; n++) send(client, room, body)
    }
  }, 20)
  return () => {
    clearInterval(timer)
    for (const client of clients) client.terminate()
  }
}

function send(client, room, body) {
  if (client.readyState === WebSocket.OPEN) client.send(JSON.stringify(['1', '2', room, 'new_msg', { body }]))
}

/** The TCP connection of a WebSocket. */
const tcpOf = (client) => client._socket

let overflowsBefore

/** Connections that the kernel has dropped since the first call, because a queue was full. */
function overflows() {
  const text = readFileSync('/proc/net/netstat', 'utf8')
  const [names, values] = text
    .split('\n')
    .filter((line) => line.startsWith('TcpExt:'))
    .map((line) => line.split(' '))
  const now = Number(values[names.indexOf('ListenOverflows')])
  overflowsBefore ??= now
  return now - overflowsBefore
}

function markdown(rows) {
  const cells = rows.map(({ fault, kind, byCall, onPage, inTop, summary }) => [
    fault,
    `[\`${kind}\`](#${kind})`,
    summary,
    `${byCall} s`,
    `${onPage} s`,
    inTop,
  ])
  const head = ['fault', 'kind', 'what it says', 'in `/admin/state` after', 'on the page after', 'in `top` after']
  const lines = [head, ['---', '---', '---', '---:', '---:', '---:'], ...cells].map((row) => `| ${row.join(' | ')} |`)
  return `${lines.join('\n')}\n`
}
