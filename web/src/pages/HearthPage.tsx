import '../style/page.css'
import { useEffect, useRef, useState } from 'preact/hooks'
import { stayAwakeFor } from '../ui/awake.ts'
import type { Hearth } from '../ui/hearth.ts'
import { isKept, PAGES_MAX } from '../ui/hearth.ts'
import { Ridge } from '../ui/Ridge.tsx'
import { pageMeant } from '../ui/route.ts'
import type { Site } from '../ui/site.ts'
import { wearFace } from '../ui/tab.ts'
import { kept } from '../words/kept.ts'
import { KeptList } from './KeptPages.tsx'

/** A tab that keeps pages burning: all of them, and a place for more. */
export function HearthPage({ site, hearth }: { site: Site; hearth: Hearth }) {
  const burning = hearth.kept.value.filter(isKept).length
  useEffect(() => wearFace(kept('tab', { count: burning }), burning > 0 ? 'lit' : 'dark'), [burning])
  useEffect(() => stayAwakeFor(hearth), [hearth])
  useEffect(() => site.prepare(), [site])
  return (
    <section class="kept hearth" aria-labelledby="burning">
      <h1 id="burning">{kept('title')}</h1>
      <p class="lead">{kept('lead')}</p>
      <LinkForm hearth={hearth} />
      {burning > 0 ? <KeptList hearth={hearth} /> : <p class="notice">{kept('none')}</p>}
      <Ridge fires={burning} />
    </section>
  )
}

/** Takes the link of a page, which is kept from then on. */
function LinkForm({ hearth }: { hearth: Hearth }) {
  const [link, setLink] = useState('')
  const [problem, setProblem] = useState<string | null>(null)
  const field = useRef<HTMLInputElement>(null)
  const hold = () => {
    const meant = pageMeant(link, location.origin)
    if (meant === null) setProblem(kept('noLink'))
    else if (!hearth.hold(meant.cid, meant.filename, meant.key)) setProblem(kept('full', { count: PAGES_MAX }))
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
