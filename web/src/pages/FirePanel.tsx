import { useRef, useState } from 'preact/hooks'
import { deferred } from '../ui/deferred.tsx'
import { Embers } from '../ui/Embers.tsx'
import { Flame } from '../ui/Flame.tsx'
import type { KeptPage } from '../ui/hearth.ts'
import { isWhole } from '../ui/hearth.ts'
import type { Mine } from '../ui/sentences.ts'
import { heldSentence, watchingSentence } from '../ui/sentences.ts'
import type { Fire } from '../ui/tab.ts'
import { page as words } from '../words/page.ts'
import { CopyLink } from './CopyLink.tsx'
import { Keeping } from './Keeping.tsx'
import { ShareButton } from './ShareButton.tsx'

const QrCode = deferred(() => import('./QrCode.tsx').then(({ QrCode }) => QrCode))
const TravelPanel = deferred(() => import('../travel/index.ts').then(({ TravelPanel }) => TravelPanel))

/** Where the code stands beside the link and pushes nothing down. */
const ROOMY = '(min-width: 44rem)'

interface FirePanelProps {
  page: KeptPage
  fire: Fire
  mine: Mine
  title: string
  /** Where this tab is: whoever gets it sees the same. */
  link: string
}

/** How the fire stands: who is there, what keeps it, and the link that brings more people. */
export function FirePanel({ page, fire, mine, title, link }: FirePanelProps) {
  const { session, ours } = page
  // What its maker wants first is the link, and the code.
  const [coded, setCoded] = useState(() => ours && matchMedia(ROOMY).matches)
  const [isOpen, setOpen] = useState(false)
  const opener = useRef<HTMLButtonElement>(null)
  const counts = session.counts.value
  const held = isWhole(session.state.value)
  const close = () => {
    setOpen(false)
    opener.current?.focus()
  }
  return (
    <section class={coded && held ? 'fire coded' : 'fire'} aria-label={words('who')}>
      <Flame fire={fire} size={44} />
      <div class="who" role="status">
        <h2>
          {counts === null ? words(session.trouble.value?.kind === 'unfound' ? 'unmet' : 'finding') : watchingSentence(counts)}
          {counts !== null && <Embers counts={counts} mine={mine} />}
        </h2>
        {counts !== null && <p>{heldSentence(counts, mine)}</p>}
      </div>
      <div class="share">
        {held && (
          <>
            <CopyLink link={link} />
            <ShareButton link={link} title={title} />
            <button type="button" aria-pressed={coded} onClick={() => setCoded(!coded)}>
              {words('code')}
            </button>
          </>
        )}
        <button type="button" ref={opener} aria-expanded={isOpen} aria-controls="travel" onClick={() => setOpen(!isOpen)}>
          {words('closer')}
        </button>
      </div>
      {held && coded && <QrCode text={link} />}
      <Keeping page={page} />
      <div class="deeper" id="travel">
        {isOpen && <TravelPanel session={session} onClose={close} />}
      </div>
    </section>
  )
}
