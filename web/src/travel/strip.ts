import type { BlockMap } from '../swarm/index.ts'

/** Where a block is: here, with so many others, or with nobody who is present. */
export type Whereabouts = 'here' | 'nowhere' | 1 | 2 | 3

/** A row of blocks, one after the other, that are all in the same place. */
export interface Run {
  readonly where: Whereabouts
  readonly from: number
  readonly length: number
}

/** Where a block is; three copies and more are told alike. */
function whereabouts({ here, elsewhere }: BlockMap, i: number): Whereabouts {
  if (here[i] === 1) return 'here'
  const copies = elsewhere[i] ?? 0
  return copies === 0 ? 'nowhere' : copies === 1 ? 1 : copies === 2 ? 2 : 3
}

/** Worst first: of blocks that share a place in the picture, the worst is shown. */
const WORST: readonly Whereabouts[] = ['nowhere', 1, 2, 3, 'here']

/** The page's blocks as runs, in the order of the page, on `width` places or fewer. */
export function runsOf(map: BlockMap, width: number): Run[] {
  const blocks = map.here.length
  const places = Math.min(width, blocks)
  const runs: { where: Whereabouts; from: number; length: number }[] = []
  for (let place = 0; place < places; place++) {
    let worst = WORST.length - 1
    const end = Math.floor(((place + 1) * blocks) / places)
    for (let i = Math.floor((place * blocks) / places); i < end; i++) {
      worst = Math.min(worst, WORST.indexOf(whereabouts(map, i)))
    }
    const where = WORST[worst] ?? 'here'
    const last = runs.at(-1)
    if (last !== undefined && last.where === where) last.length++
    else runs.push({ where, from: place, length: 1 })
  }
  return runs
}

export interface Tally {
  readonly total: number
  readonly here: number
  readonly elsewhere: number
  readonly nowhere: number
}

export function tallyOf(map: BlockMap): Tally {
  let [here, nowhere] = [0, 0]
  for (const [i, ours] of map.here.entries()) {
    if (ours === 1) here++
    else if (map.elsewhere[i] === 0) nowhere++
  }
  const total = map.here.length
  return { total, here, elsewhere: total - here - nowhere, nowhere }
}

/** The blocks that nobody present has, as ranges of numbers from 1 on; the first so many of them. */
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
