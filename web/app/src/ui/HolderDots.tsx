import type { Counts, OwnCopy } from './sentences.ts'

const DOTS_MAX = 24

/** One dot per tab: filled for the whole page, half for a part, hollow for nothing yet. */
export function HolderDots({ counts, ownCopy }: { counts: Counts; ownCopy: OwnCopy }) {
  const dots = dotRow(counts, ownCopy)
  const more = counts.watching - dots.length
  return (
    <span class="holder-dots" aria-hidden="true">
      {dots.map(({ has, own }, i) => (
        <i key={i} class={own ? `${has} own` : has} />
      ))}
      {more > 0 && <b>+{more}</b>}
    </span>
  )
}

export interface Dot {
  has: OwnCopy
  own: boolean
}

/** Holders first, then tabs with a part, then the others; one dot is this tab's own. */
export function dotRow({ watching, holders, partial }: Counts, ownCopy: OwnCopy): Dot[] {
  const has = (i: number): OwnCopy => (i < holders ? 'all' : i < holders + partial ? 'some' : 'none')
  const row = Array.from({ length: Math.max(0, Math.min(watching, DOTS_MAX)) }, (_, i) => ({
    has: has(i),
    own: false,
  }))
  const own = row.find((dot) => dot.has === ownCopy)
  if (own !== undefined) own.own = true
  return row
}
