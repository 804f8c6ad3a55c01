import '../style/page.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import { keepAwakeFor } from '../ui/keep-awake.ts'
import type { OpenPages } from '../ui/open-pages.ts'
import { isKept, PAGES_MAX } from '../ui/open-pages.ts'
import { Landscape } from '../ui/Landscape.tsx'
import { parsePageLink } from '../ui/page-link.ts'
import type { Site } from '../ui/site.ts'
import { showTabStatus } from '../ui/tab-status.ts'
import { kept } from '../messages/kept.ts'
import { KeptList } from './KeptPages.tsx'

/** All pages that this tab keeps sharing, and a form to add one. */
export function KeptPagesView({ site, openPages }: { site: Site; openPages: OpenPages }) {
  const keptCount = openPages.list.value.filter(isKept).length
  useEffect(() => showTabStatus(kept('tab', { count: keptCount }), keptCount > 0 ? 'available' : 'unavailable'), [keptCount])
  useEffect(() => keepAwakeFor(openPages, site.channels), [openPages, site])
  useEffect(() => site.prepare(), [site])
  return (
    <section class="kept kept-view" aria-labelledby="kept-title">
      <h1 id="kept-title">{kept('title')}</h1>
      <p class="lead">{kept('lead')}</p>
      <LinkForm openPages={openPages} />
      {keptCount > 0 ? <KeptList openPages={openPages} /> : <p class="notice">{kept('none')}</p>}
      <Landscape count={keptCount} />
    </section>
  )
}

/** A form that takes the link of a page and keeps it shared. */
function LinkForm({ openPages }: { openPages: OpenPages }) {
  const [link, setLink] = useState('')
  const [problem, setProblem] = useState<string | null>(null)
  const field = useRef<HTMLInputElement>(null)
  const hold = () => {
    const meant = parsePageLink(link, location.origin)
    if (meant === null) setProblem(kept('noLink'))
    else if (!openPages.hold(meant.cid, meant.filename, meant.key)) setProblem(kept('full', { count: PAGES_MAX }))
    else setLink('')
    field.current?.focus()
  }
  return (
    <form
      class="bar"
      onSubmit={(event) => {
        event.preventDefault()
        hold()
      }}
    >
      <input
        ref={field}
        class="link"
        dir="ltr"
        aria-label={kept('link')}
        placeholder={kept('link')}
        enterkeyhint="done"
        autocomplete="off"
        value={link}
        onInput={(event) => {
          setProblem(null)
          setLink(event.currentTarget.value)
        }}
      />
      <button type="submit" class="strong" disabled={link.trim() === ''}>
        {kept('hold')}
      </button>
      {problem !== null && (
        <p class="notice bad" role="alert">
          {problem}
        </p>
      )}
    </form>
  )
}
