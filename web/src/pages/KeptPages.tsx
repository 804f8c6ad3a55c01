import type { Hearth, KeptPage } from '../ui/hearth.ts'
import { pageAddress } from '../ui/route.ts'
import { heldSentence, watchingSentence } from '../ui/sentences.ts'

/** The pages that go on burning in this tab while its reader is here. */
export function KeptPages({ hearth }: { hearth: Hearth }) {
  const pages = hearth.kept.value
  if (pages.length === 0) return null
  return (
    <section class="kept" aria-label="Burning in this tab">
      <h2>Burning in this tab</h2>
      <ul>
        {pages.map((page) => (
          <KeptRow key={page.session.cid} page={page} onPutOut={() => hearth.close(page.session.cid)} />
        ))}
      </ul>
    </section>
  )
}

function KeptRow({ page, onPutOut }: { page: KeptPage; onPutOut: () => void }) {
  const { session, filename } = page
  const counts = session.counts.value
  const name = filename ?? `${session.cid.slice(0, 14)}…`
  return (
    <li>
      <a href={pageAddress(session.cid, filename)}>{name}</a>
      <span title={counts === null ? '' : heldSentence(counts, 'all')}>
        {counts === null ? '' : watchingSentence(counts)}
      </span>
      <button type="button" class="quiet" aria-label={`Put out ${name}`} onClick={onPutOut}>
        Put out
      </button>
    </li>
  )
}
