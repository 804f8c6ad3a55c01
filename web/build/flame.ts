import { deflateSync } from 'node:zlib'

/** The flame of `src/ui/Flame.tsx` and the favicon, on a grid of 32 by 32. */
export const OUTER =
  'M17.2 2.4c.5 4.7 3.4 6.6 5.9 9.8 2 2.6 3.1 5.1 3.1 8 0 5.6-4.4 9.6-10.2 9.6S5.8 25.8 5.8 20.3c0-3.3 1.5-5.8 3.3-8.2.7 1.6 1.5 2.6 2.7 3.3C11.4 9.9 13.2 5.3 17.2 2.4z'
export const INNER = 'M16.3 16.2c.3 2.3 1.7 3.2 2.7 4.6.7 1 1.1 2 1.1 3.1 0 2.4-1.8 4.1-4.1 4.1s-4.1-1.7-4.1-4.1c0-2.8 3.3-4.2 4.4-7.7z'
const GRID = 32
const FLAME = [0xe8, 0x59, 0x0c] as const
const HEART = [0xff, 0xc0, 0x69] as const
const NIGHT = [0x15, 0x13, 0x1a] as const
/** Samples per pixel in each direction. */
const SAMPLES = 4
/** Line segments that approximate one curve. */
const CURVE_STEPS = 24

type Point = readonly [x: number, y: number]

export interface IconOptions {
  readonly pixels: number
  /** The share of the picture's width that the drawing has. */
  readonly scale: number
  /** Radius of the rounded corners of the background, relative to half the width; `null` for no background. */
  readonly corner: number | null
}

/** Draws the flame as a PNG. */
export function flamePng({ pixels, scale, corner }: IconOptions): Buffer {
  const shapes = [
    { outline: outlineOf(OUTER), colour: FLAME },
    { outline: outlineOf(INNER), colour: HEART },
  ]
  const rows = Buffer.alloc(pixels * (1 + 4 * pixels))
  const toGrid = (at: number) => ((at / pixels - 0.5) / scale + 0.5) * GRID
  for (let y = 0; y < pixels; y++) {
    const lines = Array.from({ length: SAMPLES }, (_, i) => y + (i + 0.5) / SAMPLES)
    const crossed = lines.map((line) => shapes.map(({ outline, colour }) => ({ colour, at: crossings(outline, toGrid(line)) })))
    for (let x = 0; x < pixels; x++) {
      const sum = [0, 0, 0, 0]
      for (let sample = 0; sample < SAMPLES ** 2; sample++) {
        const px = x + ((sample % SAMPLES) + 0.5) / SAMPLES
        const row = Math.floor(sample / SAMPLES)
        const py = lines[row] ?? y
        // Even-odd rule: a point with an odd number of crossings to its left is inside.
        const shape = crossed[row]?.findLast(({ at }) => at.filter((crossing) => crossing < toGrid(px)).length % 2 === 1)
        const isNight = corner !== null && isInCard((2 * px) / pixels - 1, (2 * py) / pixels - 1, corner)
        const colour = shape?.colour ?? (isNight ? NIGHT : null)
        if (colour === null) continue
        for (const i of [0, 1, 2] as const) sum[i] = (sum[i] ?? 0) + colour[i]
        sum[3] = (sum[3] ?? 0) + 1
      }
      const covered = sum[3] ?? 0
      const at = y * (1 + 4 * pixels) + 1 + 4 * x
      for (const i of [0, 1, 2]) rows[at + i] = covered === 0 ? 0 : Math.round((sum[i] ?? 0) / covered)
      rows[at + 3] = Math.round((255 * covered) / SAMPLES ** 2)
    }
  }
  return png(pixels, rows)
}

/** Whether a point of the square from -1 to 1 is on a rounded square. */
function isInCard(x: number, y: number, corner: number): boolean {
  const [dx, dy] = [Math.max(0, Math.abs(x) - (1 - corner)), Math.max(0, Math.abs(y) - (1 - corner))]
  return dx * dx + dy * dy <= corner * corner
}

/** The x positions at which the outline crosses that height. */
function crossings(outline: readonly Point[], y: number): number[] {
  return outline.flatMap(([ax, ay], i) => {
    const [bx, by] = outline[(i + 1) % outline.length] ?? [ax, ay]
    return ay > y !== by > y ? [ax + ((y - ay) / (by - ay)) * (bx - ax)] : []
  })
}

/** The points of a path that consists only of `M`, `C`, `S` and `Z`, in either case. */
function outlineOf(path: string): Point[] {
  const points: Point[] = []
  let [x, y] = [0, 0]
  let lean: Point = [0, 0]
  for (const [, command = '', args = ''] of path.matchAll(/([MCSZ])([^MCSZ]*)/gi)) {
    const numbers = (args.match(/-?(?:\d+\.?\d*|\.\d+)/g) ?? []).map(Number)
    const isRelative = command === command.toLowerCase()
    const kind = command.toUpperCase()
    const arity = kind === 'M' ? 2 : kind === 'C' ? 6 : 4
    for (let i = 0; i + arity <= numbers.length; i += arity) {
      const given = numbers.slice(i, i + arity).map((n, j) => (isRelative ? n + (j % 2 === 0 ? x : y) : n))
      if (kind === 'M') {
        ;[x = 0, y = 0] = given
        points.push([x, y])
        continue
      }
      const [x1 = 0, y1 = 0, x2 = 0, y2 = 0, x3 = 0, y3 = 0] = kind === 'S' ? [2 * x - lean[0], 2 * y - lean[1], ...given] : given
      for (let step = 1; step <= CURVE_STEPS; step++) {
        const t = step / CURVE_STEPS
        const at = (a: number, b: number, c: number, d: number) =>
          (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t * t * c + t ** 3 * d
        points.push([at(x, x1, x2, x3), at(y, y1, y2, y3)])
      }
      lean = [x2, y2]
      ;[x, y] = [x3, y3]
    }
  }
  return points
}

function png(pixels: number, rows: Buffer): Buffer {
  const head = Buffer.alloc(13)
  head.writeUInt32BE(pixels, 0)
  head.writeUInt32BE(pixels, 4)
  head.set([8, 6], 8)
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return Buffer.concat([signature, chunk('IHDR', head), chunk('IDAT', deflateSync(rows, { level: 9 })), chunk('IEND', Buffer.alloc(0))])
}

function chunk(kind: string, body: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(kind), body])
  const whole = Buffer.alloc(named.length + 8)
  whole.writeUInt32BE(body.length, 0)
  named.copy(whole, 4)
  whole.writeUInt32BE(crc(named), named.length + 4)
  return whole
}

function crc(bytes: Buffer): number {
  let rest = 0xffffffff
  for (const byte of bytes) {
    rest ^= byte
    for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0xedb88320 : rest >>> 1
  }
  return (rest ^ 0xffffffff) >>> 0
}
