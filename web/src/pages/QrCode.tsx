import { encode } from 'uqr'
import { page } from '../words/page.ts'

/** What the standard asks for around the code. */
const QUIET_MODULES = 4

/** The link as a code for the cameras of phones. Dark on white in every theme, or they misread it. */
export function QrCode({ text }: { text: string }) {
  const code = codeOf(text)
  if (code === null) return <p class="notice">{page('codeTooLong')}</p>
  const { data, size } = code
  const path = data
    .flatMap((row, y) => row.map((dark, x) => (dark ? `M${x} ${y}h1v1h-1z` : '')))
    .join('')
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
