import { encode } from 'uqr'
import { page } from '../messages/page.ts'

/** Width of the margin that the standard requires, in modules. */
const QUIET_MODULES = 4

/** The link as a QR code. Dark on white in every theme, because cameras misread inverted codes. */
export function QrCode({ text }: { text: string }) {
  const code = codeOf(text)
  if (code === null) return <p class="notice">{page('codeTooLong')}</p>
  const { data, size } = code
  const path = data.flatMap((row, y) => row.map((dark, x) => (dark ? `M${x} ${y}h1v1h-1z` : ''))).join('')
  return (
    <svg class="qr" viewBox={`0 0 ${size} ${size}`} role="img" aria-label={page('codeOf')} shape-rendering="crispEdges">
      <rect width={size} height={size} fill="#fff" />
      <path d={path} fill="#1c1613" />
    </svg>
  )
}

function codeOf(text: string): { data: boolean[][]; size: number } | null {
  try {
    return encode(text, { ecc: 'L', border: QUIET_MODULES })
  } catch {
    return null
  }
}
