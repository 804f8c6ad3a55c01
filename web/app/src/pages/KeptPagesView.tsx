import '../style/page.css'
import { useEffect } from 'preact/hooks'
import { keepAwakeFor } from '../ui/keep-awake.ts'
import type { OpenPages } from '../ui/open-pages.ts'
import { isKept, PAGES_MAX } from '../ui/open-pages.ts'
import { Landscape } from '../ui/Landscape.tsx'
import { parsePageLink } from '@watchfire/pages/links'
import { noteServers } from '../ui/other-servers.ts'
import type { Site } from '../ui/site.ts'
import { showTabStatus } from '../ui/tab-status.ts'
import { kept } from '../messages/kept.ts'
import { KeptList } from './KeptPages.tsx'
import { LinkForm } from './LinkForm.tsx'

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
      <LinkForm label={kept('link')} action={kept('hold')} enterkeyhint="done" clears use={(link) => hold(link, openPages)} />
      {keptCount > 0 ? <KeptList openPages={openPages} /> : <p class="notice">{kept('none')}</p>}
      <Landscape count={keptCount} />
    </section>
  )
}

/** Keeps the page of a link shared. Returns why it cannot, or `null`. */
function hold(link: string, openPages: OpenPages): string | null {
  const meant = parsePageLink(link, location.origin)
  if (meant === null) return kept('noLink')
  noteServers(meant.cid, link)
  return openPages.hold(meant.cid, meant.filename, meant.key) ? null : kept('full', { count: PAGES_MAX })
}
