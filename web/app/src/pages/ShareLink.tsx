import { lazy } from '../ui/lazy.tsx'
import { page as text } from '../messages/page.ts'
import { CopyLink } from './CopyLink.tsx'

const QrCode = lazy(() => import('./QrCode.tsx').then(({ QrCode }) => QrCode))

interface ShareLinkProps {
  link: string
  /** Whether the QR code is shown. */
  coded: boolean
  onCoded: (coded: boolean) => void
}

/** The link of a page, as text and as a QR code. */
export function ShareLink({ link, coded, onCoded }: ShareLinkProps) {
  return (
    <>
      <div class="share">
        <CopyLink link={link} />
        <button type="button" aria-pressed={coded} onClick={() => onCoded(!coded)}>
          {text('code')}
        </button>
      </div>
      {coded && <QrCode text={link} />}
    </>
  )
}
