import '../style/page.css'
import type { OpenPages, OpenPage } from '../ui/open-pages.ts'
import { isKept, isLastHolder } from '../ui/open-pages.ts'
import { pageAddress } from '@watchfire/pages/addresses'
import { KEPT_PAGES_ADDRESS } from '../ui/route.ts'
import { haveSentence, heldSentence } from '../ui/sentences.ts'
import type { PageState } from '../ui/site.ts'
import { percentOf, percentText, sizeText } from '../messages/index.ts'
import { kept } from '../messages/kept.ts'

/** The pages that this tab keeps sharing, on the home page, with a link to manage them. */
export function KeptPages({ openPages }: { openPages: OpenPages }) {
  return (
    <section class="kept" aria-label={kept('title')}>
      <h2>
        {kept('title')} <a href={KEPT_PAGES_ADDRESS}>{kept('all')}</a>
      </h2>
      <KeptList openPages={openPages} />
    </section>
  )
}

/** Each kept page: its name, its viewers, the bytes sent, and a button to stop sharing it. */
export function KeptList({ openPages }: { openPages: OpenPages }) {
  return (
    <ul>
      {openPages.list.value.filter(isKept).map((page) => (
        <KeptRow key={page.session.cid} page={page} onStop={() => openPages.close(page.session.cid)} />
      ))}
    </ul>
  )
}

function KeptRow({ page, onStop }: { page: OpenPage; onStop: () => void }) {
  const { session, filename } = page
  const counts = session.counts.value
  const { sentBytes } = session.traffic.value
  const isLast = isLastHolder(page)
  const name = filename ?? session.name.value ?? `${session.cid.slice(0, 14)}…`
  return (
    <li>
      <a href={pageAddress(session.cid, filename, session.key.value)} dir="auto" translate={false}>
        {name}
      </a>
      <span class="standing">{standingOf(session.state.value)}</span>
      {counts !== null && <span title={heldSentence(counts, session.have.value)}>{haveSentence(counts, session.have.value)}</span>}
      {sentBytes > 0 && <span>{kept('sent', { size: sizeText(sentBytes) })}</span>}
      {isLast && <b class="last">{kept('last')}</b>}
      <button type="button" class="quiet" aria-label={kept('stopOne', { name })} onClick={onStop}>
        {kept('stop')}
      </button>
    </li>
  )
}

/** The size of a page that is here, or its progress. */
function standingOf(state: PageState): string {
  switch (state.kind) {
    case 'held':
      return sizeText(state.content.kind === 'file' ? state.content.size : state.content.files.reduce((sum, { size }) => sum + size, 0))
    case 'locked':
      return kept('locked')
    case 'loading':
      return kept('loading', { percent: percentText(state.total === null ? 0 : percentOf(state.bytes, state.total)) })
    case 'joining':
      return kept('searching')
    case 'waiting':
      return kept('waiting')
    case 'refused':
      return kept('refused')
  }
}
