/** The secret with which a client's program signs its tokens. */
export const SECRET = 'an HS256 secret of 32 bytes or more'
