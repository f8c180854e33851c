/* How wide the eight values of a patch are: sixteen ways for each of a block's eight patches,
 * found over photographs of several qualities. A hexadecimal digit is a width, the first one that of
 * place 0. The first way is the narrowest there can be, the last one takes every value that there is;
 * between them the more frequent ones come first. docs/records.md has them too. */
#ifndef DDLP_RECORD_WIDTHS_H
#define DDLP_RECORD_WIDTHS_H

enum { WAYS = 16 };

/* clang-format off */
#define RECORD_WIDTHS(X) \
    X(0x11111111), X(0x12212211), X(0x14323322), X(0x23214221), \
    X(0x15424432), X(0x46547543), X(0x14315331), X(0x35336433), \
    X(0x13113111), X(0x57656554), X(0x36435542), X(0x68768765), \
    X(0x7988a887), X(0x67648664), X(0x25554444), X(0xbbbbbbbb), \
    X(0x11111111), X(0x21112111), X(0x32111111), X(0x64213211), \
    X(0x31113111), X(0x43224222), X(0x33114211), X(0x54325322), \
    X(0x42213111), X(0x65446444), X(0x55435433), X(0x22222222), \
    X(0x76557555), X(0x43334333), X(0x87768666), X(0xbbbbbbbb), \
    X(0x11111111), X(0x22111111), X(0x32112211), X(0x54324321), \
    X(0x33313211), X(0x23212111), X(0x44434433), X(0x65435432), \
    X(0x43333332), X(0x44222221), X(0x76656655), X(0x55544444), \
    X(0x66546543), X(0x87767766), X(0x99879877), X(0xbbbbbbbb), \
    X(0x11111111), X(0x21122111), X(0x21111112), X(0x32222222), \
    X(0x32111111), X(0x43334322), X(0x22213211), X(0x43223222), \
    X(0x43113111), X(0x54344333), X(0x54435444), X(0x65455444), \
    X(0x54233233), X(0x65556555), X(0x76667666), X(0xbbbbbbbb), \
    X(0x11111111), X(0x22111111), X(0x31112111), X(0x32223211), \
    X(0x43212111), X(0x54325322), X(0x44223322), X(0x43323221), \
    X(0x53214211), X(0x76546544), X(0x65445443), X(0x65334432), \
    X(0x54433333), X(0x86657655), X(0x98768766), X(0xbbbbbbbb), \
    X(0x11111111), X(0x31211211), X(0x32113111), X(0x21121112), \
    X(0x22222222), X(0x21112111), X(0x42233212), X(0x43334322), \
    X(0x33223221), X(0x54434433), X(0x32323323), X(0x43343333), \
    X(0x54445444), X(0x65555545), X(0x76666666), X(0xbbbbbbbb), \
    X(0x11111111), X(0x32211111), X(0x22122122), X(0x42213222), \
    X(0x21111111), X(0x33222211), X(0x43332222), X(0x54324322), \
    X(0x65545444), X(0x11222211), X(0x33333333), X(0x44443333), \
    X(0x55434433), X(0x76556555), X(0x87667666), X(0xbbbbbbbb), \
    X(0x11111111), X(0x21112111), X(0x12221122), X(0x22111211), \
    X(0x33113221), X(0x33322322), X(0x31222211), X(0x43343333), \
    X(0x22232222), X(0x32233332), X(0x44334443), X(0x43224323), \
    X(0x54444444), X(0x55555555), X(0x77667666), X(0xbbbbbbbb)
/* clang-format on */

#endif
