import type { Counts, Mine } from './sentences.ts'

const EMBERS_MAX = 24

/** One ember for each tab: glowing for all of the page, half for a part, hollow for none yet. */
export function Embers({ counts, mine }: { counts: Counts; mine: Mine }) {
  const embers = emberRow(counts, mine)
  const more = counts.watching - embers.length
  return (
    <span class="embers" aria-hidden="true">
      {embers.map(({ has, own }, i) => (
        <i key={i} class={own ? `${has} own` : has} />
      ))}
      {more > 0 && <b>+{more}</b>}
    </span>
  )
}

export interface Ember {
  has: Mine
  own: boolean
}

/** Holders first, then parts, then those who have nothing yet; one of them is this tab's. */
export function emberRow({ watching, holders, partial }: Counts, mine: Mine): Ember[] {
  const has = (i: number): Mine => (i < holders ? 'all' : i < holders + partial ? 'some' : 'none')
  const row = Array.from({ length: Math.max(0, Math.min(watching, EMBERS_MAX)) }, (_, i) => ({
    has: has(i),
    own: false,
  }))
  const own = row.find((ember) => ember.has === mine)
  if (own !== undefined) own.own = true
  return row
}
