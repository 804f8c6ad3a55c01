import '../style/page.css'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { parseCid } from '@watchfire/pages/content'
import { Landscape } from '../ui/Landscape.tsx'
import { nowhere } from '../messages/nowhere.ts'
import { page, refusalOf } from '../messages/page.ts'
import { LinkForm } from './LinkForm.tsx'
import { openLink } from './open-link.ts'

/** Shown for a page that cannot be loaded, with the reason. */
export function RefusedView({ cid, reason }: { cid: string; reason: string }) {
  const isLink = useMemo(() => isCid(cid), [cid])
  const title = useRef<HTMLHeadingElement>(null)
  useEffect(() => title.current?.focus(), [])
  return (
    <section class="plain">
      <h1 ref={title} tabIndex={-1}>
        {page('cannot')}
      </h1>
      <div role="alert">
        <p>{isLink ? refusalOf(reason) : page('noPage')}</p>
      </div>
      <p class="cid">
        <code translate={false}>{cid.length > 120 ? `${cid.slice(0, 120)}…` : cid}</code>
      </p>
      {!isLink && <LinkForm label={nowhere('paste')} action={nowhere('open')} enterkeyhint="go" use={openLink} />}
      <p>
        <a class="button" href="/">
          {page('own')}
        </a>
      </p>
      <Landscape count={0} />
    </section>
  )
}

function isCid(text: string): boolean {
  try {
    return parseCid(text).text !== ''
  } catch {
    return false
  }
}
