import type { Hearth, KeptPage } from '../ui/hearth.ts'
import { isKept, isLastHolder } from '../ui/hearth.ts'
import { HEARTH_ADDRESS, pageAddress } from '../ui/route.ts'
import { heldSentence, watchingSentence } from '../ui/sentences.ts'
import type { PageState } from '../ui/site.ts'
import { percentOf, percentText, sizeText } from '../words/index.ts'
import { kept } from '../words/kept.ts'

/** The pages that go on burning in this tab while its reader is here; and the way to all about them. */
export function KeptPages({ hearth }: { hearth: Hearth }) {
  return (
    <section class="kept" aria-label={kept('title')}>
      <h2>
        {kept('title')} <a href={HEARTH_ADDRESS}>{kept('all')}</a>
      </h2>
      <KeptList hearth={hearth} />
    </section>
  )
}

/** Each page of this tab: what it is, who watches it, what it has given, and an end to it. */
export function KeptList({ hearth }: { hearth: Hearth }) {
  return (
    <ul>
      {hearth.kept.value.filter(isKept).map((page) => (
        <KeptRow key={page.session.cid} page={page} onLetGo={() => hearth.close(page.session.cid)} />
      ))}
    </ul>
  )
}

function KeptRow({ page, onLetGo }: { page: KeptPage; onLetGo: () => void }) {
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
      {counts !== null && <span title={heldSentence(counts, 'all')}>{watchingSentence(counts)}</span>}
      {sentBytes > 0 && <span>{kept('given', { size: sizeText(sentBytes) })}</span>}
      {isLast && <b class="last">{kept('last')}</b>}
      <button type="button" class="quiet" aria-label={kept('letGoOf', { name })} onClick={onLetGo}>
        {kept('letGo')}
      </button>
    </li>
  )
}

/** How large it is, once it is here; how far it has come until then. */
function standingOf(state: PageState): string {
  switch (state.kind) {
    case 'held':
      return sizeText(state.content.kind === 'file'
        ? state.content.size
        : state.content.files.reduce((sum, { size }) => sum + size, 0))
    case 'locked':
      return kept('locked')
    case 'loading':
      return kept('coming', { percent: percentText(state.total === null ? 0 : percentOf(state.bytes, state.total)) })
    case 'joining':
      return kept('searching')
    case 'waiting':
      return kept('waiting')
    case 'refused':
      return kept('refused')
  }
}
