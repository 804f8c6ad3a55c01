import { useRef, useState } from 'preact/hooks'
import { lazy } from '../ui/lazy.tsx'
import { HolderDots } from '../ui/HolderDots.tsx'
import type { OpenPage } from '../ui/open-pages.ts'
import { heldSentence, lookingSentence } from '../ui/sentences.ts'
import { page as text } from '../messages/page.ts'
import { CopyButton } from './CopyButton.tsx'
import { HideAddress } from './HideAddress.tsx'
import { KeepSwitches } from './KeepSwitches.tsx'

const CrowdView = lazy(() => import('../crowd/index.ts').then(({ CrowdView }) => CrowdView))
const QrCode = lazy(() => import('./QrCode.tsx').then(({ QrCode }) => QrCode))
const TransferPanel = lazy(() => import('../transfer-panel/index.ts').then(({ TransferPanel }) => TransferPanel))

interface StatusDetailsProps {
  page: OpenPage
  /** The link for the QR code; `null` while this tab has nothing to share. */
  link: string | null
}

/** The opened part of a page's status: the copies, the QR code, the switches and the connections. */
export function StatusDetails({ page, link }: StatusDetailsProps) {
  const { session } = page
  const [isOpen, setOpen] = useState(false)
  const [isCoded, setCoded] = useState(false)
  const opener = useRef<HTMLButtonElement>(null)
  const counts = session.counts.value
  const ownCopy = session.have.value
  const close = () => {
    setOpen(false)
    opener.current?.focus()
  }
  return (
    <>
      {counts !== null && (
        <div class="copies" role="status">
          <HolderDots counts={counts} ownCopy={ownCopy} />
          <p>
            {lookingSentence(counts)} {heldSentence(counts, ownCopy)}
          </p>
        </div>
      )}
      <CrowdView session={session} />
      {link !== null && (
        <button type="button" aria-pressed={isCoded} onClick={() => setCoded(!isCoded)}>
          {text('code')}
        </button>
      )}
      {link !== null && isCoded && <QrCode text={link} />}
      <KeepSwitches page={page} />
      <HideAddress />
      <CopyButton page={page} />
      <button type="button" ref={opener} aria-expanded={isOpen} aria-controls="transfers" onClick={() => setOpen(!isOpen)}>
        {text('details')}
      </button>
      <div class="deeper" id="transfers">
        {isOpen && <TransferPanel session={session} onClose={close} />}
      </div>
    </>
  )
}
