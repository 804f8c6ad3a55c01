// `watchfire sprites` on real X servers: two desktops without a window manager, and a pointer that xdotool moves.

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { crc32, deflateSync } from 'node:zlib'

import { waitUntil, withTimeout } from '../lib/deadlines.mjs'
import { newFolder } from '../lib/folders.mjs'
import { Program, run } from '../lib/program.mjs'
import { binary, environment, startWatchfire } from '../lib/server.mjs'

const [WIDTH, HEIGHT, SIDE] = [800, 600, 64]
/** A throw arrives sooner, also on a machine that is busy with other tests. */
const THROW_MS = 1_000
const CLICKS = 20

/** An X server with its own screen. */
class Desktop {
  /** Its name, such as `:1`. */
  display = ''
  #folder
  #server

  static async start(t) {
    const desktop = new Desktop()
    desktop.#folder = newFolder(t)
    const screen = ['-screen', '0', `${WIDTH}x${HEIGHT}x24`, '-fbdir', desktop.#folder]
    desktop.#server = new Program('Xvfb', ['-displayfd', '1', '-nolisten', 'tcp', ...screen])
    t.after(() => desktop.kill())
    const number = await desktop.#server.until(() => /^(\d+)\n/m.exec(desktop.#server.output)?.[1], 'Xvfb prints its display')
    desktop.display = `:${number}`
    return desktop
  }

  kill() {
    return this.#server.stop('SIGKILL')
  }

  get env() {
    return { ...environment(), DISPLAY: this.display }
  }

  /** Runs `watchfire sprites` until the test ends. The promise has its output, and is rejected unless it exits with code 0. */
  sprites(t, server, ...args) {
    const sprites = run(binary('watchfire'), ['sprites', '--to', server.http(''), ...args], { env: this.env })
    sprites.catch(() => {})
    t.after(() => sprites.child.kill('SIGKILL'))
    return sprites
  }

  pointer(...commands) {
    return run('xdotool', commands.map(String), { env: this.env })
  }

  /** The places of the sprites' windows: the left and upper edge of each. */
  async windows() {
    const { stdout } = await run('xwininfo', ['-root', '-children'], { env: this.env })
    const places = stdout.matchAll(new RegExp(` ${SIDE}x${SIDE}\\+\\S+ +\\+(-?\\d+)\\+(-?\\d+)$`, 'gm'))
    return Array.from(places, ([, x, y]) => ({ x: Number(x), y: Number(y) }))
  }

  /** The only sprite, when it stands on the lower edge. */
  async standing() {
    const isDown = async () => (await this.windows()).find(({ y }) => y === HEIGHT - SIDE)
    return waitUntil(isDown, 'a sprite stands at the bottom')
  }

  /** A pixel of the screen as `[red, green, blue]`, from the file in the format of xwd that Xvfb writes. */
  pixel(x, y) {
    const file = readFileSync(path.join(this.#folder, 'Xvfb_screen0'))
    const [headerBytes, lineBytes, colours] = [0, 12, 19].map((at) => file.readUInt32BE(4 * at))
    const [blue, green, red] = file.subarray(headerBytes + 12 * colours + y * lineBytes + 4 * x)
    return [red, green, blue]
  }
}

async function start(t) {
  const server = await startWatchfire()
  t.after(() => server.stop())
  return server
}

function png(width, height, rgb) {
  const chunk = (name, ...data) => {
    const body = Buffer.concat([Buffer.from(name), ...data])
    const ends = [body.length - 4, crc32(body)].map((n) => {
      const bytes = Buffer.alloc(4)
      bytes.writeUInt32BE(n)
      return bytes
    })
    return Buffer.concat([ends[0], body, ends[1]])
  }
  const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0])
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  const row = Buffer.from([
    0,
    ...Array(rgb ? width : 0)
      .fill(rgb)
      .flat(),
  ])
  const rows = Buffer.concat(Array(rgb ? height : 1).fill(row))
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', header), chunk('IDAT', deflateSync(rows)), chunk('IEND')])
}

async function assertFails(sprites, words) {
  const { code, stderr } = await withTimeout(sprites, 'the command ends').catch((error) => error)
  assert.match(stderr ?? '', words)
  assert.equal(code, 1)
}

describe('sprites on a desktop', () => {
  it('a throw over the right edge arrives at the left edge of the neighbour', async (t) => {
    const server = await start(t)
    const [a, b] = [await Desktop.start(t), await Desktop.start(t)]
    a.sprites(t, server, '--count', '1')
    await waitUntil(async () => (await server.metric('watchfire_sprites_peers')) === 1, 'the first has a slot')
    b.sprites(t, server, '--count', '0')
    await waitUntil(async () => (await server.metric('watchfire_sprites_peers')) === 2, 'both have slots')

    const { x, y } = await a.standing()
    // Level, so that it does not leave the neighbour over the upper edge.
    const moves = [460, 520, 580].flatMap((to) => ['sleep', 0.02, 'mousemove', to, 200])
    const gone = waitUntil(async () => (await a.windows()).length === 0, 'the sprite left').then(() => performance.now())
    const arrived = waitUntil(async () => (await b.windows())[0], 'the sprite arrived')
    await a.pointer('mousemove', x + 32, y + 40, 'mousedown', 1, 'mousemove', 400, 200, 'sleep', 0.2, ...moves, 'mouseup', 1)
    const [goneAt, first] = await Promise.all([gone, arrived.then((place) => ({ ...place, at: performance.now() }))])
    const ms = Math.max(0, first.at - goneAt)
    t.diagnostic(`the throw took ${ms.toFixed()} ms, within the time of one look at the windows`)
    assert(ms < THROW_MS, `the throw took ${ms} ms`)
    assert(first.x < WIDTH / 2, `it arrived at ${first.x}`)
    await waitUntil(async () => (await b.windows())[0].x > Math.max(0, first.x), 'it comes further in')
    assert.deepEqual(await a.windows(), [])
  })

  it('clicks beside the drawing reach the window below, a sprite is dragged, and Ctrl-C removes the windows', async (t) => {
    const server = await start(t)
    const desktop = await Desktop.start(t)
    const below = new Program('xev', ['-geometry', `${WIDTH}x${HEIGHT}+0+0`, '-event', 'button'], { env: desktop.env })
    t.after(() => below.stop())
    const clicks = () => below.output.match(/^ButtonPress/gm)?.length ?? 0
    await waitUntil(async () => {
      await desktop.pointer('mousemove', 5, 5, 'click', 1)
      return clicks() > 0
    }, 'a click reaches the empty window')
    await pause(200)
    const before = clicks()
    const sprites = desktop.sprites(t, server, '--count', '1')
    await desktop.standing()
    for (let i = 0; i < CLICKS; i++) {
      const { x, y } = await desktop.standing()
      // The cat's ears begin 8 pixels below the upper edge of its window.
      await desktop.pointer('mousemove', x + 13 + 2 * i, y + 3, 'click', 1)
    }
    await waitUntil(
      () => clicks() === before + CLICKS,
      () => `${CLICKS} clicks, and not ${clicks() - before}`,
    )

    const { x, y } = await desktop.standing()
    await desktop.pointer('mousemove', x + 32, y + 40, 'mousedown', 1, 'mousemove', 200, 200)
    const isAtPointer = async () => (await desktop.windows()).some((place) => place.x === 200 - 32 && place.y === 200 - 32)
    await waitUntil(isAtPointer, 'the sprite is at the pointer')
    await pause(200)
    assert(await isAtPointer(), 'a held sprite does not fall')
    await desktop.pointer('mouseup', 1)
    await desktop.standing()
    assert.equal(clicks(), before + CLICKS, 'the window below has no click on the drawing')

    sprites.child.kill('SIGINT')
    await withTimeout(sprites, 'the command ends')
    assert.deepEqual(await desktop.windows(), [])
  })

  it('an own picture is shown, and others are refused', async (t) => {
    const server = await start(t)
    const [desktop, folder] = [await Desktop.start(t), newFolder(t)]
    const file = (name, bytes) => {
      writeFileSync(path.join(folder, name), bytes)
      return path.join(folder, name)
    }
    desktop.sprites(t, server, '--count', '0', '--image', file('red.png', png(100, 100, [200, 10, 20])))
    const { x, y } = await desktop.standing()
    assert.deepEqual(desktop.pixel(x + 32, y + 32), [200, 10, 20])

    for (const [picture, words] of [
      [
        file('huge.png', png(10_000, 10_000)),
        /cannot show \S+huge\.png: it has 10000 x 10000 pixels; choose a picture of less than 100 megapixels/,
      ],
      [file('notes.png', 'Not a picture.'), /cannot show \S+notes\.png: .*; choose a PNG\n/],
    ]) {
      await assertFails(desktop.sprites(t, server, '--image', picture), words)
    }
  })

  it('without a display, or when it ends, the command says so and fails', async (t) => {
    const server = await start(t)
    const desktop = await Desktop.start(t)
    const sprites = desktop.sprites(t, server)
    await desktop.standing()
    await desktop.kill()
    await assertFails(sprites, /^watchfire: cannot show sprites: the display has ended/)
    desktop.display = ''
    await assertFails(desktop.sprites(t, server), /^watchfire: there is no display; set DISPLAY/)
  })
})
