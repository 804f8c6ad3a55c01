import '../style/page.css'
import { useEffect, useRef } from 'preact/hooks'
import { Landscape } from '../ui/Landscape.tsx'
import { page, refusalOf } from '../messages/page.ts'

/** Shown for a page that cannot be loaded, with the reason. */
export function RefusedView({ cid, reason }: { cid: string; reason: string }) {
  const title = useRef<HTMLHeadingElement>(null)
  useEffect(() => title.current?.focus(), [])
  return (
    <section class="plain" role="alert">
      <h1 ref={title} tabIndex={-1}>
        {page('cannot')}
      </h1>
      <p>{refusalOf(reason)}</p>
      <p class="cid">
        <code translate={false}>{cid.length > 120 ? `${cid.slice(0, 120)}…` : cid}</code>
      </p>
      <p>
        <a class="button" href="/">
          {page('own')}
        </a>
      </p>
      <Landscape count={0} />
    </section>
  )
}
