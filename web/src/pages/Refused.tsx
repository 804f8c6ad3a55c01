import { useEffect, useRef } from 'preact/hooks'
import { Ridge } from '../ui/Ridge.tsx'

/** A page that can never be shown, and why. */
export function Refused({ cid, reason }: { cid: string; reason: string }) {
  const title = useRef<HTMLHeadingElement>(null)
  useEffect(() => title.current?.focus(), [])
  return (
    <section class="plain" role="alert">
      <h1 ref={title} tabIndex={-1}>
        This page cannot be shown
      </h1>
      <p>{reason}</p>
      <p class="cid">
        <code>{cid.length > 120 ? `${cid.slice(0, 120)}…` : cid}</code>
      </p>
      <p>
        <a class="button" href="/">
          Light a page of your own
        </a>
      </p>
      <Ridge fires={0} />
    </section>
  )
}
