import { useEffect, useState } from 'preact/hooks'

/** Lines that are rendered above and below the window, so that the keyboard and a fast scroll find them. */
const MARGIN = 20
/** A shorter list is rendered as a whole. */
const WHOLE_MAX = 100

interface Span {
  readonly from: number
  readonly to: number
}

/** The lines of a list of equally high lines that are rendered: those in the window, and a few around it. */
export function useVisible(count: number, lineHeight: number, list: { readonly current: HTMLElement | null }): Span {
  const [span, setSpan] = useState<Span>({ from: 0, to: WHOLE_MAX })
  useEffect(() => {
    if (count <= WHOLE_MAX) return
    let frame = 0
    const look = () => {
      frame = 0
      const top = list.current?.getBoundingClientRect().top ?? 0
      const from = Math.max(0, Math.floor(-top / lineHeight) - MARGIN)
      const to = Math.ceil((innerHeight - top) / lineHeight) + MARGIN
      setSpan((before) => (before.from === from && before.to === to ? before : { from, to }))
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
  }, [count, lineHeight, list])
  if (count <= WHOLE_MAX) return { from: 0, to: count }
  const from = Math.min(span.from, Math.max(0, count - MARGIN))
  return { from, to: Math.min(count, Math.max(span.to, from + MARGIN)) }
}

/** A length in `rem` as pixels, at the size of letters that the reader chose. */
export function remPixels(rem: number): number {
  return rem * (Number.parseFloat(getComputedStyle(document.documentElement).fontSize) || 16)
}
