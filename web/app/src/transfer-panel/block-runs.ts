import type { BlockMap } from '@watchfire/pages/swarm'

/** The place of a block: this tab, this many peers, or none. */
export type BlockPlace = 'here' | 'nowhere' | 1 | 2 | 3

/** Consecutive blocks in the same place. */
export interface Run {
  readonly where: BlockPlace
  readonly from: number
  readonly length: number
}

/** The place of a block. Three copies and more count the same. */
function placeOf({ here, elsewhere }: BlockMap, i: number): BlockPlace {
  if (here[i] === 1) return 'here'
  const copies = elsewhere[i] ?? 0
  return copies === 0 ? 'nowhere' : copies === 1 ? 1 : copies === 2 ? 2 : 3
}

/** The worst first. If blocks share a column of the bar, it shows the worst of them. */
const WORST: readonly BlockPlace[] = ['nowhere', 1, 2, 3, 'here']

/** The page's blocks as runs, in the order of the page, in at most `width` columns. */
export function runsOf(map: BlockMap, width: number): Run[] {
  const blocks = map.here.length
  const places = Math.min(width, blocks)
  const runs: { where: BlockPlace; from: number; length: number }[] = []
  for (let place = 0; place < places; place++) {
    let worst = WORST.length - 1
    const end = Math.floor(((place + 1) * blocks) / places)
    for (let i = Math.floor((place * blocks) / places); i < end; i++) {
      worst = Math.min(worst, WORST.indexOf(placeOf(map, i)))
    }
    const where = WORST[worst] ?? 'here'
    const last = runs.at(-1)
    if (last !== undefined && last.where === where) last.length++
    else runs.push({ where, from: place, length: 1 })
  }
  return runs
}

export interface BlockCounts {
  readonly total: number
  readonly here: number
  readonly elsewhere: number
  readonly nowhere: number
}

export function countBlocks(map: BlockMap): BlockCounts {
  let [here, nowhere] = [0, 0]
  for (const [i, ours] of map.here.entries()) {
    if (ours === 1) here++
    else if (map.elsewhere[i] === 0) nowhere++
  }
  const total = map.here.length
  return { total, here, elsewhere: total - here - nowhere, nowhere }
}

/** The blocks that no present peer has, as ranges of numbers from 1. At most `most` ranges. */
export function missingRanges(map: BlockMap, most: number): { ranges: { from: number; to: number }[]; isCut: boolean } {
  const ranges: { from: number; to: number }[] = []
  for (let i = 0; i < map.here.length; i++) {
    if (map.here[i] === 1 || map.elsewhere[i] !== 0) continue
    const last = ranges.at(-1)
    if (last !== undefined && last.to === i) last.to = i + 1
    else if (ranges.length === most) return { ranges, isCut: true }
    else ranges.push({ from: i + 1, to: i + 1 })
  }
  return { ranges, isCut: false }
}
