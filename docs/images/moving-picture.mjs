// A picture that moves, as WebP: every browser and code host shows it without a player.

import { execFileSync } from 'node:child_process'
import { statSync } from 'node:fs'

/** Writes a picture from frames, each `{ file, durationMs }` with a PNG, and fails when it is larger than `bytesMax`. */
export function writeMovingPicture(target, frames, { bytesMax, quality = 60 }) {
  const args = frames.flatMap(({ file, durationMs }) => ['-d', String(durationMs), file])
  execFileSync('img2webp', ['-loop', '0', '-mixed', '-q', String(quality), '-m', '6', ...args, '-o', target])
  const { size } = statSync(target)
  if (size > bytesMax) throw new Error(`cannot keep ${target}: it has ${size} bytes, more than ${bytesMax}; record fewer or smaller frames`)
  console.log(`${target}: ${frames.length} frames, ${size} bytes`)
}
