import { useCallback, useEffect, useRef, useState } from 'preact/hooks'

/** A shorter document is rendered as a whole. */
const WHOLE_MAX = 100

/** The pages that are rendered, and the height of those above and below them, in pixels. */
export interface Span {
  readonly from: number
  readonly to: number
  readonly above: number
  readonly below: number
}

/** The pages that touch the pixels from `top` to `bottom` of a list of pages. */
export function spanOf(count: number, heightOf: (page: number) => number, top: number, bottom: number): Span {
  let from = 0
  let above = 0
  while (from < count - 1 && above + heightOf(from) < top) above += heightOf(from++)
  let to = from
  for (let end = above; to < count && (to === from || end < bottom); to++) end += heightOf(to)
  let below = 0
  for (let page = to; page < count; page++) below += heightOf(page)
  return { from, to, above, below }
}

function isSame(a: Span, b: Span): boolean {
  return a.from === b.from && a.to === b.to && a.above === b.above && a.below === b.below
}

/**
 * The pages of a document that are rendered: those within a window's height of the window. A file of a kilobyte can have a million pages.
 * The height of a page is not known before it was read, so until then it counts as one of the first page's ratio.
 */
export function useVisiblePages(count: number, firstRatio: number) {
  const list = useRef<HTMLDivElement>(null)
  const ratios = useRef(new Map<number, number>())
  const [span, setSpan] = useState<Span>({ from: 0, to: 1, above: 0, below: 0 })
  const isWhole = count <= WHOLE_MAX
  const ratioOf = (page: number) => ratios.current.get(page) ?? firstRatio
  const heights = useCallback(() => {
    const gap = list.current === null ? 0 : Number.parseFloat(getComputedStyle(list.current).rowGap) || 0
    const width = list.current?.clientWidth ?? 0
    return (page: number) => width / ratioOf(page) + gap
  }, [firstRatio])
  useEffect(() => {
    if (isWhole) return
    let frame = 0
    const look = () => {
      frame = 0
      const top = -(list.current?.getBoundingClientRect().top ?? 0)
      const next = spanOf(count, heights(), top - innerHeight, top + 2 * innerHeight)
      setSpan((before) => (isSame(before, next) ? before : next))
    }
    const later = () => {
      frame ||= requestAnimationFrame(look)
    }
    look()
    addEventListener('scroll', later, { passive: true })
    addEventListener('resize', later)
    return () => {
      cancelAnimationFrame(frame)
      removeEventListener('scroll', later)
      removeEventListener('resize', later)
    }
  }, [count, isWhole, heights])
  /** Scrolls to a page, or to about its place when it is not rendered. */
  const show = (page: number) => {
    const { from, to } = isWhole ? { from: 0, to: count } : span
    const at = list.current?.children[page - from]
    if (page >= from && page < to && at) return at.scrollIntoView()
    const heightOf = heights()
    let above = 0
    for (let before = 0; before < Math.min(page, count); before++) above += heightOf(before)
    scrollBy(0, (list.current?.getBoundingClientRect().top ?? 0) + above)
  }
  return {
    list,
    span: isWhole ? { from: 0, to: count, above: 0, below: 0 } : span,
    ratioOf,
    noteRatio: (page: number, ratio: number) => void ratios.current.set(page, ratio),
    show,
  }
}
