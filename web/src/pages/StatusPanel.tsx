import { useRef, useState } from 'preact/hooks'
import { lazy } from '../ui/lazy.tsx'
import { HolderDots } from '../ui/HolderDots.tsx'
import { Flame } from '../ui/Flame.tsx'
import type { PageState } from '../ui/site.ts'
import type { OpenPage } from '../ui/open-pages.ts'
import { isWhole } from '../ui/open-pages.ts'
import { heldSentence, watchingSentence } from '../ui/sentences.ts'
import type { Availability } from '../ui/tab-status.ts'
import { page as text } from '../messages/page.ts'
import { CopyLink } from './CopyLink.tsx'
import { KeepSwitches } from './KeepSwitches.tsx'
import { ShareButton } from './ShareButton.tsx'

const QrCode = lazy(() => import('./QrCode.tsx').then(({ QrCode }) => QrCode))
const TransferPanel = lazy(() => import('../transfer-panel/index.ts').then(({ TransferPanel }) => TransferPanel))

/** Width from which the QR code fits beside the link. */
const ROOMY = '(min-width: 44rem)'

interface StatusPanelProps {
  page: OpenPage
  availability: Availability
  title: string
  /** The link to what this tab shows. */
  link: string
}

/** Whether a progress bar shows that blocks arrive. */
function isArriving(state: PageState): boolean {
  return state.kind === 'loading' && state.bytes > 0
}

/** The status of a page: who is there, who has it, and the link that brings more people. */
export function StatusPanel({ page, availability, title, link }: StatusPanelProps) {
  const { session, isOwn } = page
  // The author of a page first needs the link and the code.
  const [coded, setCoded] = useState(() => isOwn && matchMedia(ROOMY).matches)
  const [isOpen, setOpen] = useState(false)
  const opener = useRef<HTMLButtonElement>(null)
  const counts = session.counts.value
  const held = isWhole(session)
  const ownCopy = session.have.value
  const close = () => {
    setOpen(false)
    opener.current?.focus()
  }
  return (
    <section class={coded && held ? 'status-panel coded' : 'status-panel'} aria-label={text('who')}>
      <Flame availability={availability} size={44} isStill={isArriving(session.state.value)} />
      <div class="who" role="status">
        <h2>
          {counts === null ? text(session.warning.value?.kind === 'rejected' ? 'unconnected' : 'finding') : watchingSentence(counts)}
          {counts !== null && <HolderDots counts={counts} ownCopy={ownCopy} />}
        </h2>
        {counts !== null && <p>{heldSentence(counts, ownCopy)}</p>}
      </div>
      <div class="share">
        {held && (
          <>
            <CopyLink link={link} />
            <ShareButton link={link} title={title} />
            <button type="button" aria-pressed={coded} onClick={() => setCoded(!coded)}>
              {text('code')}
            </button>
          </>
        )}
        <button type="button" ref={opener} aria-expanded={isOpen} aria-controls="transfers" onClick={() => setOpen(!isOpen)}>
          {text('details')}
        </button>
      </div>
      {held && coded && <QrCode text={link} />}
      <KeepSwitches page={page} />
      <div class="deeper" id="transfers">
        {isOpen && <TransferPanel session={session} onClose={close} />}
      </div>
    </section>
  )
}
