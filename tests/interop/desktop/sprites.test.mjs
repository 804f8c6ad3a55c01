// `watchfire sprites` on real X servers: two desktops without a window manager, and a pointer that xdotool moves.

import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'

import { newVisitor, startServer } from '../browser/page-driver.mjs'
import { waitUntil, withTimeout } from '../lib/deadlines.mjs'
import { Desktop, HEIGHT, png, SIDE, WIDTH } from '../lib/desktop.mjs'
import { newFolder } from '../lib/folders.mjs'
import { Program } from '../lib/program.mjs'
import { startWatchfire } from '../lib/server.mjs'

/** A throw arrives sooner, also on a machine that is busy with other tests. */
const THROW_MS = 1_000
const CLICKS = 100
/** A window of GTK out of which a file can be dragged. */
const DRAG_SOURCE = fileURLToPath(new URL('drag-source.py', import.meta.url))
const RED = [200, 10, 20]
const RED_LINE = () => Array(100).fill(RED).flat()

async function start(t) {
  const server = await startWatchfire()
  t.after(() => server.stop())
  return server
}

/** @param {number[]} colour */
const isRed = ([red, green, blue]) => Math.abs(red - RED[0]) + Math.abs(green - RED[1]) + Math.abs(blue - RED[2]) < 6

async function assertFails(sprites, words) {
  const { code, stderr } = await withTimeout(sprites, 'the command ends').catch((error) => error)
  assert.match(stderr ?? '', words)
  assert.equal(code, 1)
}

/** Two desktops on one grid; the first has the sprites that `args` name, the second has none. */
async function startPair(t, server, transport, args) {
  const desktops = [await Desktop.start(t), await Desktop.start(t)]
  for (const [i, desktop] of desktops.entries()) {
    desktop.sprites(t, server, '--transport', transport, ...(i === 0 ? args : ['--count', '0']))
    await waitUntil(async () => (await server.metric('watchfire_sprites_peers')) === i + 1, `${i + 1} slots`)
  }
  return desktops
}

describe('sprites on a desktop', () => {
  for (const transport of ['websocket', 'longpoll']) {
    it(`a throw over the right edge arrives at the left edge of the neighbour (${transport})`, async (t) => {
      const server = await start(t)
      const [a, b] = await startPair(t, server, transport, ['--count', '1'])
      const gone = waitUntil(async () => (await a.windows()).length === 0, 'the sprite left').then(() => performance.now())
      const arrived = waitUntil(async () => (await b.windows())[0], 'the sprite arrived')
      await a.throwRight()
      const [goneAt, first] = await Promise.all([gone, arrived.then((place) => ({ ...place, at: performance.now() }))])
      const ms = Math.max(0, first.at - goneAt)
      t.diagnostic(`the throw took ${ms.toFixed()} ms, within the time of one look at the windows`)
      assert(ms < THROW_MS, `the throw took ${ms} ms`)
      assert(first.x < WIDTH / 2, `it arrived at ${first.x}`)
      await waitUntil(async () => (await b.windows())[0].x > Math.max(0, first.x), 'it comes further in')
      assert.deepEqual(await a.windows(), [])
    })
  }

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
      await desktop.pointer('mousemove', x + 13 + Math.floor((2 * i) / 5), y + 3, 'click', 1)
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

  it('sprites stand on visible monitors only, and a throw over the edge between two stays on the desktop', async (t) => {
    const server = await start(t)
    const [desktop, neighbour] = [await Desktop.start(t), await Desktop.start(t)]
    await desktop.monitor('left', '400/100x600/150+0+0', 'screen')
    await desktop.monitor('right', '300/75x400/100+500+100', 'none')
    const many = desktop.sprites(t, server, '--count', '15')
    const isOnMonitor = ({ x, y }) => (y === 600 - SIDE && x >= 0 && x <= 400 - SIDE) || (y === 500 - SIDE && x >= 500 && x <= 800 - SIDE)
    await waitUntil(async () => {
      const windows = await desktop.windows()
      return windows.length === 15 && windows.every(isOnMonitor)
    }, 'all stand on a monitor')
    many.child.kill('SIGINT')
    await withTimeout(many, 'the command ends')

    // Without a neighbour, it could not leave.
    desktop.sprites(t, server, '--count', '1')
    await desktop.throwRight(200, 10)
    const onRight = () =>
      waitUntil(async () => (await desktop.windows()).find(({ x, y }) => x >= 500 && y === 500 - SIDE), 'it stands on the right')
    await onRight()
    neighbour.sprites(t, server, '--count', '0')
    await waitUntil(async () => (await server.metric('watchfire_sprites_peers')) === 2, 'there is a neighbour')
    const { x, y } = await onRight()
    await desktop.pointer(
      'mousemove',
      x + 32,
      y + 40,
      'mousedown',
      1,
      ...[600, 650, 700].flatMap((to) => ['sleep', 0.02, 'mousemove', to, 200]),
      'mouseup',
      1,
    )
    await waitUntil(async () => (await neighbour.windows()).length === 1, 'the sprite arrived')
    assert.deepEqual(await desktop.windows(), [])
  })

  it('a hundred sprites take less than 30 MB', async (t) => {
    const server = await start(t)
    const desktop = await Desktop.start(t)
    const { child } = desktop.sprites(t, server, '--count', '100')
    await waitUntil(async () => (await desktop.windows()).length === 100, 'all are shown')
    // The file of an unoptimized build has 50 MB of pages in memory.
    const field = process.env.INTEROP_PROFILE === 'dev' ? 'RssAnon' : 'VmRSS'
    const kib = Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))[1])
    t.diagnostic(`${(kib / 1024).toFixed(1)} MiB`)
    assert(kib * 1024 < 30e6, `${kib} KiB`)
  })

  it('an own picture is shown, and others are refused', async (t) => {
    const server = await start(t)
    const [desktop, folder] = [await Desktop.start(t), newFolder(t)]
    const file = (name, bytes) => {
      writeFileSync(path.join(folder, name), bytes)
      return path.join(folder, name)
    }
    desktop.sprites(t, server, '--count', '0', '--image', file('red.png', png(100, 100, RED_LINE)))
    assert.deepEqual(await desktop.colour(), RED)

    for (const [picture, words] of [
      [
        file('huge.png', png(10_000, 10_000)),
        /cannot show \S+huge\.png: it has 10000 x 10000 pixels; choose a picture of less than 100 megapixels/,
      ],
      [file('notes.png', 'Not a picture.'), /cannot show \S+notes\.png: .*; choose a PNG, a JPEG or a WebP\n/],
    ]) {
      await assertFails(desktop.sprites(t, server, '--image', picture), words)
    }
  })

  it('an own picture reaches the neighbour with its sprite, and stays when the first desktop is gone', async (t) => {
    const server = await start(t)
    const picture = path.join(newFolder(t), 'red.png')
    writeFileSync(picture, png(100, 100, RED_LINE))
    const [a, b] = await startPair(t, server, 'websocket', ['--count', '0', '--image', picture])
    await a.throwRight()
    await waitUntil(async () => isRed(await b.colour()), 'the neighbour shows the picture')
    const c = await Desktop.start(t)
    await a.kill()
    await waitUntil(async () => (await server.metric('watchfire_sprites_peers')) === 1, 'the first is gone')
    c.sprites(t, server, '--count', '0')
    await waitUntil(async () => (await server.metric('watchfire_sprites_peers')) === 2, 'the third has a slot')
    await b.throwRight()
    await waitUntil(async () => isRed(await c.colour()), 'the third shows the picture')
  })

  it('a browser and a desktop are neighbours', async (t) => {
    const server = await startServer(t)
    const person = await newVisitor(t, server)
    await person.goTo('/sprites/meadow')
    const desktop = await Desktop.start(t)
    desktop.sprites(t, server, '--count', '1')
    await waitUntil(async () => (await server.metric('watchfire_sprites_peers')) === 2, 'both have slots')
    await desktop.throwRight()
    await person.waitForText('cat came in from the left.')
    await person.tab
      .getByRole('button', { name: /^Kite: arrow keys/ })
      .first()
      .focus()
    await person.tab.keyboard.press('ArrowLeft')
    await desktop.standing()
  })

  it('a picture that is dragged out of another program becomes a sprite', async (t) => {
    const server = await start(t)
    const [desktop, folder] = [await Desktop.start(t), newFolder(t)]
    const picture = path.join(folder, 'my red.png')
    writeFileSync(picture, png(100, 100, RED_LINE))
    const source = new Program('/usr/bin/python3', [DRAG_SOURCE, pathToFileURL(picture).href], { env: desktop.env })
    t.after(() => source.stop())
    await source.until(() => source.output.includes('ready'), 'the other program shows its window')
    desktop.sprites(t, server, '--count', '1')
    const { x, y } = await desktop.standing()
    // The sprite stands still as soon as the picture is above it.
    const over = [0, 2, 4].flatMap((by) => ['mousemove', x + 30 + by, y + 40, 'sleep', 0.1])
    await desktop.pointer('mousemove', 50, 50, 'mousedown', 1, 'sleep', 0.1, 'mousemove', 90, 90, 'sleep', 0.1, ...over, 'mouseup', 1)
    await waitUntil(async () => (await desktop.windows()).length === 2, 'there is another sprite')
    const colours = async () => (await desktop.windows()).map((window) => desktop.pixel(window.x + SIDE / 2, window.y + SIDE / 2))
    await waitUntil(async () => (await colours()).some(isRed), 'it shows the picture')
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
