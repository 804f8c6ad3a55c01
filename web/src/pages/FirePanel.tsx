import { useState } from 'preact/hooks'
import { deferred } from '../ui/deferred.tsx'
import { Embers } from '../ui/Embers.tsx'
import { Flame } from '../ui/Flame.tsx'
import type { Counts, Mine } from '../ui/sentences.ts'
import { heldSentence, watchingSentence } from '../ui/sentences.ts'
import type { PageState } from '../ui/site.ts'
import type { Fire } from '../ui/tab.ts'
import { CopyLink } from './CopyLink.tsx'

const QrCode = deferred(() => import('./QrCode.tsx').then(({ QrCode }) => QrCode))

/** Where the code stands beside the link and pushes nothing down. */
const ROOMY = '(min-width: 44rem)'

interface FirePanelProps {
  fire: Fire
  counts: Counts | null
  mine: Mine
  /** Whether the page was made here: then its link, and the code, is what its maker wants first. */
  ours: boolean
  state: PageState
}

/** How the fire stands: who is there, what keeps it, and the link that brings more people. */
export function FirePanel({ fire, counts, mine, ours, state }: FirePanelProps) {
  const [coded, setCoded] = useState(() => ours && matchMedia(ROOMY).matches)
  const link = location.href
  const held = state.kind === 'held'
  return (
    <section class={coded && held ? 'fire coded' : 'fire'} aria-label="Who keeps this page">
      <Flame fire={fire} size={44} />
      <div class="who" role="status">
        <h2>
          {counts === null ? 'Finding the others…' : watchingSentence(counts)}
          {counts !== null && <Embers counts={counts} mine={mine} />}
        </h2>
        {counts !== null && <p>{heldSentence(counts, mine)}</p>}
      </div>
      {held && (
        <div class="share">
          <CopyLink link={link} />
          <button type="button" aria-pressed={coded} onClick={() => setCoded(!coded)}>
            QR code
          </button>
        </div>
      )}
      {held && coded && <QrCode text={link} />}
    </section>
  )
}
