// X servers in memory, with `watchfire sprites` on them and a pointer that xdotool moves.

import { readFileSync } from 'node:fs'
import path from 'node:path'
import { crc32, deflateSync } from 'node:zlib'

import { waitUntil } from './deadlines.mjs'
import { newFolder } from './folders.mjs'
import { Program, run } from './program.mjs'
import { binary, environment } from './server.mjs'

/** The size of the screen, and width and height of the window of a sprite. */
export const [WIDTH, HEIGHT, SIDE] = [800, 600, 64]

/** An X server with its own screen. */
export class Desktop {
  /** Its name, such as `:1`. */
  display = ''
  #folder
  #server

  /** `t` is the test, or another object whose `after` takes what is to be done at the end. */
  static async start(t) {
    const desktop = new Desktop()
    desktop.#folder = newFolder(t)
    // Without `-noreset`, it forgets its monitors when its last client ends, such as xrandr.
    const screen = ['-noreset', '-screen', '0', `${WIDTH}x${HEIGHT}x24`, '-fbdir', desktop.#folder]
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

  /** Shows a part of the screen as a monitor of its own. */
  monitor(name, geometry, output) {
    return run('xrandr', ['--setmonitor', name, geometry, output], { env: this.env })
  }

  /**
   * Throws the only sprite over the right edge, level, so that it does not leave the neighbour over the upper edge. The last
   * moves before the throw begin at `from`, and each is `by` pixels.
   */
  async throwRight(from = 400, by = 60) {
    const { x, y } = await this.standing()
    const moves = [1, 2, 3].flatMap((n) => ['sleep', 0.02, 'mousemove', from + n * by, 200])
    await this.pointer('mousemove', x + 32, y + 40, 'mousedown', 1, 'mousemove', from, 200, 'sleep', 0.2, ...moves, 'mouseup', 1)
  }

  /** The colour in the middle of the only sprite, when it stands on the lower edge. */
  async colour() {
    const { x, y } = await this.standing()
    return this.pixel(x + SIDE / 2, y + SIDE / 2)
  }

  /** A pixel of the screen as `[red, green, blue]`. */
  pixel(x, y) {
    const [blue, green, red] = this.#line(y).subarray(4 * x)
    return [red, green, blue]
  }

  /** A line of the file in the format of xwd that Xvfb writes. */
  #line(y, file = this.capture()) {
    const [headerBytes, lineBytes, colours] = [0, 12, 19].map((at) => file.readUInt32BE(4 * at))
    return file.subarray(headerBytes + 12 * colours + y * lineBytes).subarray(0, lineBytes)
  }

  /** The screen now, for `screenshot`. */
  capture() {
    return readFileSync(path.join(this.#folder, 'Xvfb_screen0'))
  }

  /** A captured screen as a PNG. */
  screenshot(file) {
    return png(WIDTH, HEIGHT, (y) => {
      const line = this.#line(y, file)
      return Array.from({ length: WIDTH }, (_, x) => [line[4 * x + 2], line[4 * x + 1], line[4 * x]]).flat()
    })
  }
}

/** A PNG whose lines are arrays of red, green and blue. Without `line`, it is cut off. */
export function png(width, height, line) {
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
  const lines = Array.from({ length: line ? height : 1 }, (_, y) => Buffer.from([0, ...(line?.(y) ?? [])]))
  const content = deflateSync(Buffer.concat(lines))
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', header), chunk('IDAT', content), chunk('IEND')])
}
